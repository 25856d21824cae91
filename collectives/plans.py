"""Plans for the collectives: check the arguments, choose an algorithm, bind it to memory.

Every function here works in place on a buffer of the caller; `collectives.api` adds the
out-of-place forms. All checks are done before any communication.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.blocks import Blocks, Joined, Split
from collectives.channel import check_comm
from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BCAST,
    REDUCE,
    REDUCE_SCATTER,
    Collective,
)
from collectives.memory import on_device
from collectives.op import SUM, Op
from collectives.plan import Plan
from collectives.registry import REGISTRY
from collectives.select import choose
from collectives.step import rotated
from collectives.traffic import Traffic

REDUCIBLE = ("float16", "float32", "float64", "int32", "int64")
"""The dtypes that the reductions take."""


def plan_allreduce(
    buffer: Any,
    op: Op = SUM,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan an allreduce in place: afterwards every rank's ``buffer`` holds the reduction.

    Args:
        buffer: C-contiguous numpy or cupy array, of one shape and dtype on all ranks.
        op: SUM, PROD, MIN, MAX or another `Op`.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, or no such algorithm.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    return _plan(ALLREDUCE, buffer, comm, algorithm, op=op, traffic=traffic)


def plan_reduce(
    buffer: Any,
    op: Op = SUM,
    root: int = 0,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan a reduction to ``root``, in place; the other ranks' buffers are used as scratch.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, no such root, or no such algorithm.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    return _plan(REDUCE, buffer, comm, algorithm, op=op, root=root, traffic=traffic)


def plan_bcast(
    buffer: Any,
    root: int = 0,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan a broadcast from ``root``, in place. Any dtype of fixed size.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, no such root, or no such algorithm.
    """
    check_buffer("buffer", buffer, comm)
    return _plan(BCAST, buffer, comm, algorithm, root=root, traffic=traffic)


def plan_reduce_scatter(
    buffer: Any,
    op: Op = SUM,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan a reduce-scatter in place: rank r's part of ``buffer`` becomes the reduction.

    The parts are those of `collectives.blocks.share`: consecutive, of lengths that differ by at
    most one. The rest of the buffer is used as scratch.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, or no such algorithm.
    """
    check_buffer("buffer", buffer, comm, reduce=True)
    return _plan(REDUCE_SCATTER, buffer, comm, algorithm, op=op, traffic=traffic)


def plan_allgather(
    buffer: Any,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan an allgather in place: rank r has its part of ``buffer``, and gets all other parts.

    The parts are those of `collectives.blocks.share`. Any dtype of fixed size.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, or no such algorithm.
    """
    check_buffer("buffer", buffer, comm)
    return _plan(ALLGATHER, buffer, comm, algorithm, traffic=traffic)


def plan_alltoall(
    sendbuf: Any,
    recvbuf: Any,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Plan:
    """Plan an alltoall: part j of rank i's ``sendbuf`` becomes part i of rank j's ``recvbuf``.

    Both have the same dtype and number of elements, a multiple of the number of ranks.

    Raises:
        TypeError: not an array, of different dtypes, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, lengths that differ or that the number of ranks does
            not divide, memory that overlaps, or no such algorithm.
    """
    check_buffer("sendbuf", sendbuf, comm, writable=False)
    check_buffer("recvbuf", recvbuf, comm)
    check_alike(sendbuf, recvbuf, int(sendbuf.size), comm)
    size = comm.Get_size()
    if sendbuf.size % size:
        raise ValueError(
            f"sendbuf: has {sendbuf.size} elements, which {size} ranks do not divide{at(comm)}"
        )
    chosen = REGISTRY.get(ALLTOALL, _named(ALLTOALL, algorithm, size, int(sendbuf.nbytes)))
    blocks = Joined(Split(sendbuf, size), Split(recvbuf, size))
    return Plan(chosen.generate(comm.Get_rank(), size), blocks, comm, traffic=traffic)


def check_buffer(
    name: str, array: Any, comm: MPI.Comm, *, reduce: bool = False, writable: bool = True
) -> None:
    """Check that an array can be bound to a plan.

    Raises:
        TypeError: it is not an array, its dtype will not do, or ``comm`` is no communicator.
        ValueError: it is not contiguous or read-only, or ``comm`` is null or has two groups.
    """
    check_comm(comm)
    if not (isinstance(array, np.ndarray) or on_device(array)):
        raise TypeError(
            f"{name}: is a {type(array).__name__}; needs a numpy or cupy array{at(comm)}"
        )
    if isinstance(array, np.ndarray) and hasattr(array, "mask"):
        raise TypeError(f"{name}: is a masked array; fill it and pass the plain one{at(comm)}")
    dtype = np.dtype(array.dtype)
    if reduce and (dtype.name not in REDUCIBLE or not dtype.isnative):
        raise TypeError(
            f"{name}: has dtype {dtype}; a reduction takes {', '.join(REDUCIBLE)}, "
            f"in native byte order{at(comm)}"
        )
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"{name}: has dtype {dtype}; needs one of a fixed size{at(comm)}")
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: has shape {array.shape} and strides {array.strides}; needs a C-contiguous "
            f"array, as numpy.ascontiguousarray makes{at(comm)}"
        )
    if writable and isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(f"{name}: is read-only; the result is stored in it{at(comm)}")


def check_alike(sendbuf: Any, recvbuf: Any, elements: int, comm: MPI.Comm) -> None:
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
    if isinstance(recvbuf, np.ndarray) and np.may_share_memory(sendbuf, recvbuf):
        raise ValueError(
            f"recvbuf: overlaps sendbuf; leave it out to work in place, or pass another{at(comm)}"
        )


def at(comm: MPI.Comm) -> str:
    """Return where an error happened, for the end of its message."""
    return f" (rank {comm.Get_rank()} of {comm.Get_size()})"


def _named(collective: Collective, algorithm: str, size: int, nbytes: int) -> str:
    return choose(collective, size, nbytes) if algorithm == "auto" else algorithm


def _plan(
    collective: Collective,
    buffer: Any,
    comm: MPI.Comm,
    algorithm: str,
    *,
    op: Op = SUM,
    root: int = 0,
    traffic: Traffic | None,
) -> Plan:
    size = comm.Get_size()
    if not isinstance(op, Op):
        raise TypeError(f"op: is {op!r}; needs collectives.SUM, PROD, MIN, MAX or an Op{at(comm)}")
    if not 0 <= root < size:
        raise ValueError(f"root={root}: needs 0 <= root < {size}{at(comm)}")
    chosen = REGISTRY.get(collective, _named(collective, algorithm, size, int(buffer.nbytes)))
    generate = rotated(chosen.generate, root)
    blocks: Blocks = Split(buffer, chosen.blocks(size))
    return Plan(generate(comm.Get_rank(), size), blocks, comm, op, traffic=traffic)
