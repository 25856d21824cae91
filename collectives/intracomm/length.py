"""How long the buffer of a rank is in a call of the drop-in, whoever does the call.

It is that of the longer buffer: in an Allgather the one that holds the parts of all ranks. Gatherv
and Scatterv tell it at the root only; the other ranks know no more than their own part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from collectives.intracomm.message import Message, block_message, means_in_place
from collectives.intracomm.move import runs


def length(method: str, rank: int, size: int, args: tuple[Any, ...]) -> int | None:
    """Return the length in bytes of the buffer of a rank.

    Args:
        method: of the communicator: ``Allreduce``, ``Iallreduce`` or ``Allreduce_init``.
        rank: of this process.
        size: of the communicator.
        args: of the method, all that are buffers, counts, operations and roots.

    Returns:
        Bytes; None where the arguments cannot be read here, though the library has taken them.
    """
    form = method.removesuffix("_init").removeprefix("I").capitalize()
    try:
        return _LENGTHS[form](rank, size, *args)
    except (TypeError, ValueError, KeyError, BufferError, MPI.Exception):
        return None


def _bytes(message: Message) -> int:
    return sum(message.counts) * message.kind.size


def _block(spec: Any) -> int:
    return _bytes(block_message(spec, False))


def _parts(spec: Any, size: int, vector: bool) -> int:
    return _bytes(runs(spec, False, size, vector))


def _barrier(rank: int, size: int) -> int:
    return 0


def _bcast(rank: int, size: int, buf: Any, root: int) -> int:
    return _block(buf)


def _allreduce(rank: int, size: int, sendbuf: Any, recvbuf: Any, op: MPI.Op) -> int:
    return _block(recvbuf)


def _reduce(rank: int, size: int, sendbuf: Any, recvbuf: Any, op: MPI.Op, root: int) -> int:
    return _block(recvbuf if rank == root else sendbuf)


def _reduce_scatter_block(rank: int, size: int, sendbuf: Any, recvbuf: Any, op: MPI.Op) -> int:
    whole = recvbuf if means_in_place(sendbuf) else sendbuf
    return _bytes(block_message(whole, False, size)) * size


def _reduce_scatter(
    rank: int, size: int, sendbuf: Any, recvbuf: Any, recvcounts: Any, op: MPI.Op
) -> int:
    message = block_message(recvbuf if means_in_place(sendbuf) else sendbuf, False)
    return _bytes(message) if recvcounts is None else sum(recvcounts) * message.kind.size


def _allgather(rank: int, size: int, sendbuf: Any, recvbuf: Any, *, vector: bool) -> int:
    return _parts(recvbuf, size, vector)


def _alltoall(rank: int, size: int, sendbuf: Any, recvbuf: Any, *, vector: bool) -> int:
    return _parts(recvbuf if means_in_place(sendbuf) else sendbuf, size, vector)


def _gather(rank: int, size: int, sendbuf: Any, recvbuf: Any, root: int, *, vector: bool) -> int:
    return _rooted(rank == root, size, sendbuf, recvbuf, vector)


def _scatter(rank: int, size: int, sendbuf: Any, recvbuf: Any, root: int, *, vector: bool) -> int:
    return _rooted(rank == root, size, recvbuf, sendbuf, vector)


def _rooted(at_root: bool, size: int, part: Any, whole: Any, vector: bool) -> int:
    if at_root:
        return _parts(whole, size, vector)
    return _block(part) * (1 if vector else size)


_LENGTHS: dict[str, Callable[..., int]] = {
    "Barrier": _barrier,
    "Bcast": _bcast,
    "Allreduce": _allreduce,
    "Reduce": _reduce,
    "Reduce_scatter_block": _reduce_scatter_block,
    "Reduce_scatter": _reduce_scatter,
    "Allgather": partial(_allgather, vector=False),
    "Allgatherv": partial(_allgather, vector=True),
    "Alltoall": partial(_alltoall, vector=False),
    "Alltoallv": partial(_alltoall, vector=True),
    "Gather": partial(_gather, vector=False),
    "Gatherv": partial(_gather, vector=True),
    "Scatter": partial(_scatter, vector=False),
    "Scatterv": partial(_scatter, vector=True),
}
"""By the method that blocks: what tells the length."""
