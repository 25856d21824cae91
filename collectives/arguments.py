"""Check the arguments of collectives: before any communication, naming the rank."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.blocks import share
from collectives.channel import check_comm
from collectives.device import as_array
from collectives.memory import on_device
from collectives.op import MAX, MIN, PROD, SUM, Op

REDUCIBLE = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
"""The dtypes that the reductions take; 16-bit floats are added in float32."""

OPS_OF_MPI = {MPI.SUM.handle: SUM, MPI.PROD.handle: PROD, MPI.MIN.handle: MIN, MPI.MAX.handle: MAX}
"""What MPI's own operations are here, by their handles."""


def check_buffer(
    name: str,
    array: Any,
    comm: MPI.Comm,
    *,
    reduce: bool = False,
    writable: bool = True,
    contiguous: bool = True,
) -> Any:
    """Return an array that can be bound to a plan: what was given, or a view of its memory.

    Tensors and other objects with DLPack or the CUDA array interface are taken too (see
    `collectives.device.as_array`).

    Raises:
        TypeError: it is not an array, its dtype will not do, or ``comm`` is no communicator.
        ValueError: it is not contiguous or read-only, or ``comm`` is null or has two groups.
    """
    check_comm(comm)
    if type(array) is not np.ndarray:
        array = array_of(name, array, comm, writable=writable)
    if isinstance(array, np.ndarray) and hasattr(array, "mask"):
        raise TypeError(f"{name}: is a masked array; fill it and pass the plain one{at(comm)}")
    dtype = array.dtype if type(array) is np.ndarray else np.dtype(array.dtype)
    if reduce and not _reducible(dtype):
        raise TypeError(
            f"{name}: has dtype {dtype}; a reduction takes {', '.join(REDUCIBLE)}, "
            f"in native byte order{at(comm)}"
        )
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"{name}: has dtype {dtype}; needs one of a fixed size{at(comm)}")
    if contiguous and not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: has shape {array.shape} and strides {array.strides}; needs a C-contiguous "
            f"array, as numpy.ascontiguousarray makes{at(comm)}"
        )
    if writable and isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(f"{name}: is read-only; the result is stored in it{at(comm)}")
    return array


@functools.cache
def _reducible(dtype: np.dtype[Any]) -> bool:
    return dtype.name in REDUCIBLE and dtype.isnative


def check_alike(
    sendbuf: Any, recvbuf: Any, elements: int, comm: MPI.Comm, *, disjoint: bool = True
) -> None:
    """Check that the receive buffer has this many elements, the same dtype, and its own memory.

    Raises:
        TypeError: the dtypes differ, or one is on a device and the other is not.
        ValueError: the number of elements is another, or the two overlap.
    """
    if recvbuf.dtype != sendbuf.dtype:
        raise TypeError(
            f"recvbuf: has dtype {recvbuf.dtype}, sendbuf {sendbuf.dtype}; "
            f"they must agree{at(comm)}"
        )
    if on_device(recvbuf) != on_device(sendbuf):
        raise TypeError(
            f"recvbuf: is a {type(recvbuf).__name__}, sendbuf a {type(sendbuf).__name__}; "
            f"they must agree{at(comm)}"
        )
    if recvbuf.size != elements:
        raise ValueError(f"recvbuf: has {recvbuf.size} elements; needs {elements}{at(comm)}")
    if disjoint and isinstance(recvbuf, np.ndarray) and np.may_share_memory(sendbuf, recvbuf):
        raise ValueError(
            f"recvbuf: overlaps sendbuf; leave it out to work in place, or pass another{at(comm)}"
        )


def at(comm: MPI.Comm) -> str:
    """Return where an error happened, for the end of its message."""
    return f" (rank {comm.Get_rank()} of {comm.Get_size()})"


def array_of(name: str, obj: Any, comm: MPI.Comm, *, writable: bool) -> Any:
    """Return an object as an array (see `collectives.device.as_array`).

    Raises:
        TypeError, ValueError: as there; it is MPI.IN_PLACE.
    """
    if obj is MPI.IN_PLACE:
        raise TypeError(
            f"{name}: is MPI.IN_PLACE; leave it out: allreduce, reduce, reduce_scatter and "
            f"allgather work in place where they are given one array{at(comm)}"
        )
    return as_array(name, obj, writable=writable, where=at(comm))


def op_of(op: Any, comm: MPI.Comm) -> Op:
    """Return an operation of ours: what was given, or what stands here for MPI's own.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(op, Op):
        return op
    ours = OPS_OF_MPI.get(op.handle) if isinstance(op, MPI.Op) else None
    if ours is not None:
        return ours
    raise TypeError(
        f"op: is {_op_text(op)}; needs SUM, PROD, MIN or MAX, of collectives or of MPI, or a "
        f"collectives.Op of yours{at(comm)}"
    )


def _op_text(op: Any) -> str:
    if not isinstance(op, MPI.Op):
        return f"a {type(op).__name__}"
    names = (name for name, value in vars(MPI).items() if isinstance(value, MPI.Op) and value == op)
    return next((f"MPI.{name}" for name in names), "an MPI.Op of yours")


def wants_ranks(deterministic: Any, op: Any, comm: MPI.Comm) -> bool:
    """Return whether a sum is to have the same bits at every number of ranks.

    Raises:
        TypeError: ``op`` is no operation.
        ValueError: ``deterministic`` is neither "run" nor "ranks", or the operation is no sum.
    """
    if deterministic == "run":
        return False
    if deterministic != "ranks":
        raise ValueError(f"deterministic={deterministic!r}: is one of run, ranks{at(comm)}")
    ours = op_of(op, comm)
    if ours is not SUM:
        raise ValueError(f'op={ours}: deterministic="ranks" is for SUM{at(comm)}')
    return True


def check_root(root: Any, comm: MPI.Comm) -> int:
    """Return the root, checked to be a rank.

    Raises:
        TypeError: it is no whole number.
        ValueError: there is no such rank.
    """
    try:
        number = operator.index(root)
    except TypeError:
        raise TypeError(f"root={root!r}: needs a rank{at(comm)}") from None
    if not 0 <= number < comm.Get_size():
        raise ValueError(f"root={root}: needs 0 <= root < {comm.Get_size()}{at(comm)}")
    return number


def bounds_of(name: str, counts: Sequence[int] | None, elements: int, comm: MPI.Comm) -> list[int]:
    """Return where the parts of the ranks begin and end: ``size + 1`` positions.

    Args:
        name: of the argument, for the message.
        counts: elements of each rank's part; None: parts whose lengths differ by at most one.
        elements: of all parts together.
        comm: the communicator.

    Raises:
        ValueError: there are not as many as ranks, one is negative, or they have another sum.
    """
    size = comm.Get_size()
    if counts is None:
        return [share(elements, r, size)[0] for r in range(size)] + [elements]
    lengths = [operator.index(c) for c in counts]
    if len(lengths) != size or min(lengths) < 0 or sum(lengths) != elements:
        raise ValueError(
            f"{name}={lengths}: needs {size} numbers, 0 or more, whose sum is {elements}{at(comm)}"
        )
    return list(accumulate(lengths, initial=0))
