"""The collectives as one call each: plan, run, free.

In a loop over the same buffers make a plan once (`collectives.plans`) and start it many times.
Without ``recvbuf`` each call works in place. Each returns the array that holds the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import plans
from collectives.blocks import share
from collectives.memory import flat, namespace
from collectives.op import SUM, Op
from collectives.traffic import Traffic


def allreduce(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op = SUM,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Reduce an array over all ranks, elementwise; every rank gets the result.

    The result is bitwise the same on all ranks and in every run.

    Args:
        sendbuf: numpy or cupy array of float16, float32, float64, int32 or int64; any shape, the
            same on all ranks. Without ``recvbuf`` it must be C-contiguous and gets the result.
        recvbuf: C-contiguous array of as many elements and the same dtype, or None for in place.
        op: SUM, PROD, MIN or MAX.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None.

    Raises:
        TypeError: not an array, or a dtype that cannot be reduced or differs.
        ValueError: not contiguous, read-only, of another length, or no such algorithm.
    """
    result = _result(sendbuf, recvbuf, comm)
    with plans.plan_allreduce(result, op, comm=comm, algorithm=algorithm, traffic=traffic) as plan:
        plan.run()
    return result


def reduce(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op = SUM,
    root: int = 0,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Reduce an array over all ranks, elementwise; ``root`` gets the result.

    Args and errors as for `allreduce`. On the other ranks the result buffer is used as scratch.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None; meaningful at ``root`` only.
    """
    result = _result(sendbuf, recvbuf, comm)
    with plans.plan_reduce(
        result, op, root, comm=comm, algorithm=algorithm, traffic=traffic
    ) as plan:
        plan.run()
    return result


def bcast(
    buffer: Any,
    root: int = 0,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Copy the array of ``root`` to all ranks, in place.

    Args:
        buffer: C-contiguous numpy or cupy array of any dtype of fixed size.
        root: the rank that has the data.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Returns:
        ``buffer``.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, no such root, or no such algorithm.
    """
    with plans.plan_bcast(buffer, root, comm=comm, algorithm=algorithm, traffic=traffic) as plan:
        plan.run()
    return buffer


def reduce_scatter(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op = SUM,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Reduce an array over all ranks; rank r gets part r of the result.

    The parts are those of `collectives.blocks.share`: consecutive in the flat array, of lengths
    that differ by at most one.

    Args:
        sendbuf: as for `allreduce`. Without ``recvbuf`` it is used as scratch.
        recvbuf: C-contiguous array with as many elements as this rank's part, or None.
        op: SUM, PROD, MIN or MAX.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Returns:
        ``recvbuf``; where that is None, a 1-D view of this rank's part of ``sendbuf``.

    Raises:
        TypeError: not an array, or a dtype that cannot be reduced or differs.
        ValueError: not contiguous, read-only, of another length, or no such algorithm.
    """
    work = sendbuf
    start, stop = 0, 0
    if recvbuf is not None:
        plans.check_buffer("sendbuf", _contiguous(sendbuf), comm, reduce=True, writable=False)
        plans.check_buffer("recvbuf", recvbuf, comm, reduce=True)
        start, stop = share(int(sendbuf.size), comm.Get_rank(), comm.Get_size())
        plans.check_alike(sendbuf, recvbuf, stop - start, comm)
        work = namespace(sendbuf).array(sendbuf, order="C")
    with plans.plan_reduce_scatter(
        work, op, comm=comm, algorithm=algorithm, traffic=traffic
    ) as plan:
        plan.run()
    start, stop = share(int(work.size), comm.Get_rank(), comm.Get_size())
    part = flat(work)[start:stop]
    if recvbuf is None:
        return part
    flat(recvbuf)[...] = part
    return recvbuf


def allgather(
    sendbuf: Any,
    recvbuf: Any = None,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Gather the parts of all ranks, in order of ranks, on every rank.

    Args:
        sendbuf: this rank's part of the flat result, as `collectives.blocks.share` deals it out
            (equal parts where the number of ranks divides the length). Without ``recvbuf``: the
            whole result, C-contiguous, in which this rank's part is filled in.
        recvbuf: C-contiguous array for the whole result, or None.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None.

    Raises:
        TypeError: not an array, of a dtype without a fixed size, or of different dtypes.
        ValueError: not contiguous, read-only, of another length, or no such algorithm.
    """
    if recvbuf is None:
        recvbuf = sendbuf
        plans.check_buffer("sendbuf", sendbuf, comm)
    else:
        plans.check_buffer("sendbuf", _contiguous(sendbuf), comm, writable=False)
        plans.check_buffer("recvbuf", recvbuf, comm)
        start, stop = share(int(recvbuf.size), comm.Get_rank(), comm.Get_size())
        if stop - start != sendbuf.size:
            raise ValueError(
                f"sendbuf: has {sendbuf.size} elements; this rank's part of recvbuf "
                f"({recvbuf.size} elements) has {stop - start}{plans.at(comm)}"
            )
        plans.check_alike(sendbuf, recvbuf, int(recvbuf.size), comm)
        flat(recvbuf)[start:stop] = flat(_contiguous(sendbuf))
    with plans.plan_allgather(recvbuf, comm=comm, algorithm=algorithm, traffic=traffic) as plan:
        plan.run()
    return recvbuf


def alltoall(
    sendbuf: Any,
    recvbuf: Any,
    *,
    comm: MPI.Comm,
    algorithm: str = "auto",
    traffic: Traffic | None = None,
) -> Any:
    """Send part j of ``sendbuf`` to rank j; part i of ``recvbuf`` is what rank i sent.

    Args:
        sendbuf: numpy or cupy array, C-contiguous; the number of ranks divides its length.
        recvbuf: as long, of the same dtype; not the same memory.
        comm: the communicator.
        algorithm: a name that ``python -m collectives list`` shows, or "auto".
        traffic: counters to add to.

    Returns:
        ``recvbuf``.

    Raises:
        TypeError: not an array, of different dtypes, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, of a wrong length, overlapping, or no such algorithm.
    """
    with plans.plan_alltoall(
        sendbuf, recvbuf, comm=comm, algorithm=algorithm, traffic=traffic
    ) as plan:
        plan.run()
    return recvbuf


def _contiguous(array: Any) -> Any:
    """Return the array, or a contiguous copy: an input may have any strides."""
    if isinstance(array, np.ndarray) and not array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    return array


def _result(sendbuf: Any, recvbuf: Any, comm: MPI.Comm) -> Any:
    """Return the buffer to reduce in place: ``sendbuf``, or ``recvbuf`` with a copy of it."""
    if recvbuf is None:
        plans.check_buffer("sendbuf", sendbuf, comm, reduce=True)
        return sendbuf
    sendbuf = _contiguous(sendbuf)
    plans.check_buffer("sendbuf", sendbuf, comm, reduce=True, writable=False)
    plans.check_buffer("recvbuf", recvbuf, comm, reduce=True)
    plans.check_alike(sendbuf, recvbuf, int(sendbuf.size), comm)
    flat(recvbuf)[...] = flat(sendbuf)
    return recvbuf
