"""Plans for the collectives: check the arguments, choose an algorithm, bind it to memory.

The functions that take one buffer work in place; `collectives.api` adds the out-of-place forms.
All checks are done before any communication. Every function takes the keywords of
`collectives.options.Options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from collectives.arguments import (
    at,
    bounds_of,
    check_alike,
    check_buffer,
    check_op,
    check_root,
)
from collectives.bind import Job, bind, bind_job
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
    SCATTER,
    Collective,
)
from collectives.memory import flat, namespace
from collectives.op import SUM, Op
from collectives.plan import Plan
from collectives.step import Recv, Round, Send

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options


def plan_allreduce(
    buffer: Any, op: Op = SUM, *, comm: MPI.Comm, **options: Unpack[Options]
) -> Plan:
    """Plan an allreduce in place: afterwards every rank's ``buffer`` holds the reduction.

    Args:
        buffer: C-contiguous array on the host or on a device, of one shape and dtype on all ranks.
        op: SUM, PROD, MIN, MAX or another `Op`.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, or no such algorithm or executor.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    check_op(op, comm)
    job = Job(ALLREDUCE, lambda blocks: Split(buffer, blocks), buffer.nbytes, op, target=buffer)
    return bind_job(job, comm, **options)


def plan_reduce(
    buffer: Any, op: Op = SUM, root: int = 0, *, comm: MPI.Comm, **options: Unpack[Options]
) -> Plan:
    """Plan a reduction to ``root``, in place; the other ranks' buffers are used as scratch.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, no such root, or no such algorithm or executor.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    check_op(op, comm)
    root = check_root(root, comm)
    job = Job(REDUCE, lambda blocks: Split(buffer, blocks), buffer.nbytes, op, root, target=buffer)
    return bind_job(job, comm, **options)


def plan_bcast(buffer: Any, root: int = 0, *, comm: MPI.Comm, **options: Unpack[Options]) -> Plan:
    """Plan a broadcast from ``root``, in place. Any dtype of fixed size.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, no such root, or no such algorithm or executor.
    """
    check_buffer("buffer", buffer, comm)
    root = check_root(root, comm)
    job = Job(BCAST, lambda blocks: Split(buffer, blocks), buffer.nbytes, root=root, target=buffer)
    return bind_job(job, comm, **options)


def plan_reduce_scatter(
    buffer: Any,
    op: Op = SUM,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan a reduce-scatter in place: rank r's part of ``buffer`` becomes the reduction.

    The parts are consecutive. The rest of the buffer is used as scratch.

    Args:
        buffer: C-contiguous array, of one shape and dtype on all ranks.
        op: the reduction.
        counts: elements of each rank's part, the same on all ranks; None: lengths that differ by
            at most one, as `collectives.blocks.share` deals them out.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, bad counts, or no such algorithm or executor.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    check_op(op, comm)
    bounds = bounds_of("counts", counts, int(buffer.size), comm)
    job = Job(
        REDUCE_SCATTER,
        lambda blocks: Split(buffer, blocks, _finer(bounds, blocks)),
        buffer.nbytes,
        op,
        target=buffer,
        bounds=bounds,
    )
    return bind_job(job, comm, **options)


def plan_allgather(
    buffer: Any,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan an allgather in place: rank r has its part of ``buffer``, and gets all other parts.

    Any dtype of fixed size; ``counts`` and errors as for `plan_reduce_scatter`.
    """
    check_buffer("buffer", buffer, comm)
    bounds = bounds_of("counts", counts, int(buffer.size), comm)
    job = Job(
        ALLGATHER,
        lambda blocks: Split(buffer, blocks, _finer(bounds, blocks)),
        buffer.nbytes,
        target=buffer,
        bounds=bounds,
    )
    return bind_job(job, comm, **options)


def plan_alltoall(
    sendbuf: Any,
    recvbuf: Any,
    *,
    sendcounts: Sequence[int] | None = None,
    recvcounts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan an alltoall: part j of rank i's ``sendbuf`` becomes part i of rank j's ``recvbuf``.

    Args:
        sendbuf: C-contiguous; its parts are consecutive.
        recvbuf: the same dtype; its memory must not overlap that of ``sendbuf``.
        sendcounts: elements of each part; None: as many for each rank.
        recvcounts: the same of ``recvbuf``. Give both or neither, on all ranks.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: not an array, of different dtypes, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, lengths that do not fit, memory that overlaps, or no
            such algorithm or executor.
    """
    check_buffer("sendbuf", sendbuf, comm, writable=False)
    check_buffer("recvbuf", recvbuf, comm)
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

    job = Job(
        ALLTOALL,
        blocks_of,
        sendbuf.nbytes,
        source=sendbuf,
        target=recvbuf,
        bounds=send,
        target_bounds=recv,
        # Where parts differ, what passes through a rank has a length that the rank does not know.
        straight=uneven,
    )
    return bind_job(job, comm, **options)


def plan_gather(
    sendbuf: Any,
    recvbuf: Any,
    root: int = 0,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan a gather: ``recvbuf`` at ``root`` gets each rank's ``sendbuf``, in order of ranks.

    Args:
        sendbuf: C-contiguous; of ``counts[rank]`` elements.
        recvbuf: C-contiguous, of the same dtype, for all parts; only looked at on ``root``.
        root: a rank.
        counts: elements of each rank, the same on all ranks; None: as many on each.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: not an array, of different dtypes, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, lengths that do not fit, no such root, or no such
            algorithm or executor.
    """
    return bind_job(_rooted(GATHER, sendbuf, recvbuf, root, counts, comm), comm, **options)


def plan_scatter(
    sendbuf: Any,
    recvbuf: Any,
    root: int = 0,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan a scatter: each rank's ``recvbuf`` gets its part of ``sendbuf`` at ``root``.

    Args and errors as for `plan_gather`, with the roles of the buffers exchanged.
    """
    return bind_job(_rooted(SCATTER, recvbuf, sendbuf, root, counts, comm), comm, **options)


def plan_barrier(*, comm: MPI.Comm, **options: Unpack[Options]) -> Plan:
    """Plan a barrier: it ends when all ranks have started it.

    Raises:
        ValueError: no such algorithm or executor.
    """
    token = np.zeros(1, np.uint8)
    job = Job(BARRIER, lambda blocks: Regions([token] * blocks), comm.Get_size(), target=token)
    return bind_job(job, comm, **options)


def plan_neighbor(
    sendbufs: Sequence[Any],
    destinations: Sequence[int],
    recvbufs: Sequence[Any],
    sources: Sequence[int],
    *,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan an exchange with neighbours: one array to each destination, one from each source.

    Messages between the same two ranks are matched in order, and travel as one.

    Args:
        sendbufs: arrays of one dtype and of any shape and stride, one for each destination.
        destinations: ranks; -1 stands for nobody.
        recvbufs: arrays of that dtype, one for each source.
        sources: ranks; -1 stands for nobody.
        comm: the communicator.
        **options: see `collectives.options.Options`; there is one algorithm.

    Raises:
        TypeError: not arrays, or of several dtypes.
        ValueError: lengths that differ, a rank that does not exist, a read-only ``recvbufs``.
    """
    for name, arrays, peers in (
        ("sendbufs", sendbufs, destinations),
        ("recvbufs", recvbufs, sources),
    ):
        if len(arrays) != len(peers):
            raise ValueError(f"{name}: are {len(arrays)} for {len(peers)} ranks{at(comm)}")
        for i, (array, peer) in enumerate(zip(arrays, peers, strict=True)):
            check_buffer(f"{name}[{i}]", array, comm, contiguous=False, writable=name == "recvbufs")
            if not -1 <= peer < comm.Get_size():
                raise ValueError(f"{name}[{i}]: there is no rank {peer}{at(comm)}")
    goes: Round = [Send(peer, i) for i, peer in enumerate(destinations)]
    comes: Round = [Recv(peer, len(sendbufs) + i) for i, peer in enumerate(sources)]
    traffic, executor = options.get("traffic"), options.get("executor", "auto")
    blocks = Regions([*sendbufs, *recvbufs])
    return bind([goes + comes], blocks, comm, executor=executor, traffic=traffic)


def _finer(bounds: Sequence[int], blocks: int) -> list[int]:
    """Cut each part into as many blocks as an algorithm wants: ``blocks / parts`` of each."""
    parts = len(bounds) - 1
    each = blocks // parts
    return [
        start + (stop - start) * i // each for start, stop in pairwise(bounds) for i in range(each)
    ] + [bounds[-1]]


def _rooted(
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
    check_buffer(names[0], part, comm, writable=not gather)
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
        check_buffer(names[1], whole, comm, writable=gather)
        check_alike(*((part, whole) if gather else (whole, part)), int(whole.size), comm)
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
