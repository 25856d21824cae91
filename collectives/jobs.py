"""Calls of the collectives as data: the arguments checked, nothing decided yet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.arguments import (
    at,
    bounds_of,
    check_alike,
    check_buffer,
    check_root,
    op_of,
)
from collectives.bind import Job
from collectives.blocks import Joined, Regions, Split, share
from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    Collective,
)
from collectives.memory import flat, namespace
from collectives.op import Op


def allreduce_job(buffer: Any, op: Op | MPI.Op, comm: MPI.Comm) -> Job:
    """Return an allreduce; arguments and errors as for `collectives.plans.plan_allreduce`."""
    buffer = check_buffer("buffer", buffer, comm, reduce=True)
    ours = op_of(op, comm)
    return Job(
        ALLREDUCE,
        lambda blocks: Split(buffer, blocks),
        buffer.nbytes,
        ours,
        target=buffer,
        layout=(),
    )


def reduce_job(buffer: Any, op: Op | MPI.Op, root: int, comm: MPI.Comm) -> Job:
    """Return a reduction; arguments and errors as for `collectives.plans.plan_reduce`."""
    buffer = check_buffer("buffer", buffer, comm, reduce=True)
    ours = op_of(op, comm)
    return Job(
        REDUCE,
        lambda blocks: Split(buffer, blocks),
        buffer.nbytes,
        ours,
        check_root(root, comm),
        target=buffer,
        layout=(),
    )


def bcast_job(buffer: Any, root: int, comm: MPI.Comm) -> Job:
    """Return a broadcast; arguments and errors as for `collectives.plans.plan_bcast`."""
    buffer = check_buffer("buffer", buffer, comm)
    return Job(
        BCAST,
        lambda blocks: Split(buffer, blocks),
        buffer.nbytes,
        root=check_root(root, comm),
        target=buffer,
        layout=(),
    )


def reduce_scatter_job(
    buffer: Any, op: Op | MPI.Op, counts: Sequence[int] | None, comm: MPI.Comm
) -> Job:
    """Return a reduce-scatter; as for `collectives.plans.plan_reduce_scatter`."""
    buffer = check_buffer("buffer", buffer, comm, reduce=True)
    ours = op_of(op, comm)
    bounds = bounds_of("counts", counts, int(buffer.size), comm)
    return Job(
        REDUCE_SCATTER,
        lambda blocks: Split(buffer, blocks, _finer(bounds, blocks)),
        buffer.nbytes,
        ours,
        target=buffer,
        bounds=bounds,
        layout=tuple(bounds),
    )


def allgather_job(buffer: Any, counts: Sequence[int] | None, comm: MPI.Comm) -> Job:
    """Return an allgather; as for `collectives.plans.plan_allgather`."""
    buffer = check_buffer("buffer", buffer, comm)
    bounds = bounds_of("counts", counts, int(buffer.size), comm)
    return Job(
        ALLGATHER,
        lambda blocks: Split(buffer, blocks, _finer(bounds, blocks)),
        buffer.nbytes,
        target=buffer,
        bounds=bounds,
        layout=tuple(bounds),
    )


def alltoall_job(
    sendbuf: Any,
    recvbuf: Any,
    sendcounts: Sequence[int] | None,
    recvcounts: Sequence[int] | None,
    comm: MPI.Comm,
) -> Job:
    """Return an alltoall; as for `collectives.plans.plan_alltoall`."""
    sendbuf = check_buffer("sendbuf", sendbuf, comm, writable=False)
    recvbuf = check_buffer("recvbuf", recvbuf, comm)
    size = comm.Get_size()
    if (sendcounts is None) != (recvcounts is None):
        raise ValueError(f"sendcounts, recvcounts: give both or neither{at(comm)}")
    uneven = sendcounts is not None
    check_alike(sendbuf, recvbuf, int(recvbuf.size if uneven else sendbuf.size), comm)
    if not uneven and sendbuf.size % size:
        raise ValueError(
            f"sendbuf: has {sendbuf.size} elements, which {size} ranks do not divide{at(comm)}"
        )
    send = bounds_of("sendcounts", sendcounts, int(sendbuf.size), comm)
    recv = bounds_of("recvcounts", recvcounts, int(recvbuf.size), comm)

    def blocks_of(blocks: int) -> Joined:
        # Further blocks are scratch: what lies there on its way has the length of any part.
        passing = namespace(recvbuf).empty((blocks - 2 * size) * (recv[1] - recv[0]), recvbuf.dtype)
        return Joined(
            Split(sendbuf, size, send),
            Split(recvbuf, size, recv),
            Split(passing, blocks - 2 * size),
        )

    return Job(
        ALLTOALL,
        blocks_of,
        sendbuf.nbytes,
        source=sendbuf,
        target=recvbuf,
        bounds=send,
        target_bounds=recv,
        # Where parts differ, what passes through a rank has a length that the rank does not know.
        straight=uneven,
        layout=None if uneven else (),
    )


def barrier_job(comm: MPI.Comm) -> Job:
    """Return a barrier."""
    token = np.zeros(1, np.uint8)
    return Job(
        BARRIER,
        lambda blocks: Regions([token] * blocks),
        comm.Get_size(),
        target=token,
        layout=(),
    )


def rooted_job(
    collective: Collective,
    part: Any,
    whole: Any,
    root: int,
    counts: Sequence[int] | None,
    comm: MPI.Comm,
) -> Job:
    """Return a gather or a scatter: ``whole`` at the root, ``part`` everywhere.

    Block b belongs to rank ``(root + b) % size``, as `collectives.step.rotated` numbers them.
    """
    size, rank = comm.Get_size(), comm.Get_rank()
    gather = collective is GATHER
    names = ("sendbuf", "recvbuf") if gather else ("recvbuf", "sendbuf")
    part = check_buffer(names[0], part, comm, writable=not gather)
    root = check_root(root, comm)
    lengths = [int(part.size)] * size if counts is None else [int(c) for c in counts]
    bounds = bounds_of("counts", lengths, sum(lengths), comm)
    if lengths[rank] != part.size:
        raise ValueError(
            f"{names[0]}: has {part.size} elements; counts[{rank}] is {lengths[rank]}{at(comm)}"
        )
    own = flat(part)
    data = None
    if rank == root:
        whole = check_buffer(names[1], whole, comm, writable=gather)
        pair = (part, whole) if gather else (whole, part)
        check_alike(*pair, int(pair[1].size), comm)
        if whole.size != bounds[-1]:
            raise ValueError(
                f"{names[1]}: has {whole.size} elements; needs {bounds[-1]}, which is what all "
                f"ranks have together{at(comm)}"
            )
        data = flat(whole)

    def blocks_of(blocks: int) -> Regions:
        # A tree passes on what belongs to others. Memory that is not touched costs nothing.
        places = data if data is not None else namespace(part).empty(bounds[-1], part.dtype)
        each = blocks // size
        found = []
        for r in ((root + b) % size for b in range(size)):
            mine = own if r == rank != root else places[bounds[r] : bounds[r + 1]]
            found += [mine[slice(*share(mine.size, i, each))] for i in range(each)]
        return Regions(found)

    copy = None
    if data is not None:
        mine = data[bounds[root] : bounds[root + 1]]
        copy = (own, mine) if gather else (mine, own)
    return Job(
        collective,
        blocks_of,
        bounds[-1] * int(part.dtype.itemsize),
        root=root,
        source=part if gather else data,
        target=data if gather else part,
        bounds=bounds,
        copy=copy,
    )


def _finer(bounds: Sequence[int], blocks: int) -> list[int]:
    """Cut each part into as many blocks as an algorithm wants: ``blocks / parts`` of each."""
    parts = len(bounds) - 1
    each = blocks // parts
    return [
        start + (stop - start) * i // each for start, stop in pairwise(bounds) for i in range(each)
    ] + [bounds[-1]]
