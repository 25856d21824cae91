"""The collectives that move data: what the arguments of the drop-in say is to be done.

They move bytes. So they take every datatype, also another one on each rank, as MPI allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from collectives.bind import Job
from collectives.blocks import Joined, Regions, Split
from collectives.collective import ALLGATHER, ALLTOALL, BARRIER, BCAST
from collectives.intracomm.message import (
    Message,
    block_message,
    means_in_place,
    rank_of,
    vector_message,
)
from collectives.intracomm.place import Placer
from collectives.intracomm.work import Here, Work, cut
from collectives.memory import namespace


def barrier(here: Here) -> Work:
    """Return what Barrier has to do."""
    token = np.zeros(1, np.uint8)
    return Work(
        Job(BARRIER, lambda blocks: Regions([token] * blocks), here.size, target=token, layout=())
    )


def bcast(here: Here, buf: Any, root: Any) -> Work | None:
    """Read the arguments of Bcast."""
    root = rank_of(root)
    at_root = here.rank == root
    message = block_message(buf, not at_root)
    if not 0 <= root < here.size:
        return None
    placer = Placer(here.alone, here.direct)
    data = placer.data(message, load=at_root, store=not at_root)
    job = Job(
        BCAST, lambda blocks: Split(data, blocks), data.nbytes, root=root, target=data, layout=()
    )
    return Work(job, placer.before, placer.after, library=not message.kind.carried)


def allgather(here: Here, sendbuf: Any, recvbuf: Any, *, vector: bool) -> Work:
    """Read the arguments of Allgather or, of a vector, of Allgatherv."""
    target = runs(recvbuf, True, here.size, vector)
    in_place = means_in_place(sendbuf)
    placer = Placer(here.alone, here.direct)
    whole = placer.data(target, load=in_place, store=True)
    bounds = bounds_of(target)
    mine = whole[bounds[here.rank] : bounds[here.rank + 1]]
    if not in_place:
        data = placer.data(block_message(sendbuf, False), load=True)
        check_length("sendbuf", data, "what recvbuf has for this rank", mine)
        placer.first(data, mine)
    job = Job(
        ALLGATHER,
        lambda blocks: Split(whole, blocks, cut(bounds, blocks // here.size)),
        whole.nbytes,
        target=whole,
        bounds=bounds,
        layout=tuple(bounds),
    )
    return Work(job, placer.before, placer.after, library=not target.kind.carried)


def alltoall(here: Here, sendbuf: Any, recvbuf: Any, *, vector: bool) -> Work:
    """Read the arguments of Alltoall or, of a vector, of Alltoallv."""
    size = here.size
    target = runs(recvbuf, True, size, vector)
    in_place = means_in_place(sendbuf)
    placer = Placer(here.alone, here.direct)
    whole = placer.data(target, load=in_place, store=True)
    recv = bounds_of(target)
    if in_place:
        data, send = namespace(whole).empty(whole.size, whole.dtype), recv
        placer.first(whole, data)
    else:
        source = runs(sendbuf, False, size, vector)
        data, send = placer.data(source, load=True), bounds_of(source)
    if not vector:
        check_length("sendbuf", data, "recvbuf", whole)

    def blocks_of(blocks: int) -> Joined:
        # Further blocks are scratch: what lies there on its way has the length of any part.
        room = namespace(whole).empty((blocks - 2 * size) * recv[1], np.uint8)
        return Joined(
            Split(data, size, send), Split(whole, size, recv), Split(room, blocks - 2 * size)
        )

    job = Job(
        ALLTOALL,
        blocks_of,
        data.nbytes,
        source=data,
        target=whole,
        bounds=send,
        target_bounds=recv,
        straight=vector,
        layout=None if vector else (),
    )
    return Work(job, placer.before, placer.after, library=not target.kind.carried)


def runs(spec: Any, writable: bool, size: int, vector: bool) -> Message:
    """Read an argument that has a run for each rank; those of a block argument are adjacent."""
    if vector:
        return vector_message(spec, writable, size)
    message = block_message(spec, writable, size)
    (count,), (first,) = message.counts, message.displs
    displs = [first + count * i for i in range(size)]
    return replace(message, counts=[count] * size, displs=displs)


def bounds_of(message: Message) -> Sequence[int]:
    """Return where the data of each run begins in that of all, in bytes, and the end of all."""
    return list(accumulate((n * message.kind.size for n in message.counts), initial=0))


def check_length(name: str, data: Any, other: str, expected: Any) -> None:
    """Check that data has the length that it is to have.

    Raises:
        ValueError: it has another.
    """
    if data.nbytes != expected.nbytes:
        raise ValueError(
            f"message: {name} has {data.nbytes} bytes of data; {other} has {expected.nbytes}"
        )
