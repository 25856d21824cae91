"""The collectives as one call each.

The plans of such calls are kept (see `collectives.calls`). In a loop over the same buffers a plan
of one's own (`collectives.plans`) saves the checks.
Without ``recvbuf`` each call works in place. Each returns the array that holds the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from collectives.agreement import checked
from collectives.arguments import array_of, at, bounds_of, check_alike, check_buffer, wants_ranks
from collectives.calls import call
from collectives.channel import check_comm
from collectives.collective import GATHER, SCATTER
from collectives.jobs import (
    allgather_job,
    allreduce_job,
    alltoall_job,
    barrier_job,
    bcast_job,
    reduce_job,
    reduce_scatter_job,
    rooted_job,
)
from collectives.memory import flat, namespace
from collectives.op import SUM, Op

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options


@checked
def allreduce(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op | MPI.Op = SUM,
    *,
    deterministic: str = "run",
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Reduce an array over all ranks, elementwise; every rank gets the result.

    The result is bitwise the same on all ranks and in every run.

    Args:
        sendbuf: numpy or cupy array of float16, float32, float64, int32 or int64; any shape, the
            same on all ranks. Without ``recvbuf`` it must be C-contiguous and gets the result.
        recvbuf: C-contiguous array of as many elements and the same dtype, or None for in place.
        op: SUM, PROD, MIN or MAX, of this package or of MPI, or an `Op` of yours.
        deterministic: "run", or "ranks": the same bits on any number of ranks; then ``sendbuf``
            may hold several summands, (k, *shape of recvbuf), and a sum of zero is +0.0, also of
            -0.0. See `collectives.reproducible`.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None.

    Raises:
        TypeError: not an array, or a dtype that cannot be reduced or differs.
        ValueError: not contiguous, read-only, of another length, or no such algorithm or
            executor.
    """
    if wants_ranks(deterministic, op, comm):
        from collectives.reproducible import allreduce_reproducible

        return allreduce_reproducible(sendbuf, recvbuf, comm=comm, **options)
    result = _result(sendbuf, recvbuf, comm)
    call(allreduce_job(result, op, comm), comm, **options)
    return sendbuf if recvbuf is None else recvbuf


@checked
def reduce(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op | MPI.Op = SUM,
    root: int = 0,
    *,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Reduce an array over all ranks, elementwise; ``root`` gets the result.

    Args and errors as for `allreduce`. On the other ranks the result buffer is used as scratch.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None; meaningful at ``root`` only.
    """
    result = _result(sendbuf, recvbuf, comm)
    call(reduce_job(result, op, root, comm), comm, **options)
    return sendbuf if recvbuf is None else recvbuf


@checked
def bcast(
    buffer: Any,
    root: int = 0,
    *,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Copy the array of ``root`` to all ranks, in place.

    Args:
        buffer: C-contiguous numpy or cupy array of any dtype of fixed size.
        root: the rank that has the data.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Returns:
        ``buffer``.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, no such root, or no such algorithm or
            executor.
    """
    call(bcast_job(buffer, root, comm), comm, **options)
    return buffer


@checked
def reduce_scatter(
    sendbuf: Any,
    recvbuf: Any = None,
    op: Op | MPI.Op = SUM,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Reduce an array over all ranks; rank r gets part r of the result.

    The parts are consecutive in the flat array.

    Args:
        sendbuf: as for `allreduce`. Without ``recvbuf`` it is used as scratch.
        recvbuf: C-contiguous array with as many elements as this rank's part, or None.
        op: SUM, PROD, MIN or MAX, of this package or of MPI, or an `Op` of yours.
        counts: elements of each rank's part; None: lengths that differ by at most one.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Returns:
        ``recvbuf``; where that is None, a 1-D view of this rank's part of ``sendbuf``.

    Raises:
        TypeError: not an array, or a dtype that cannot be reduced or differs.
        ValueError: not contiguous, read-only, of another length, or no such algorithm or
            executor.
    """
    if recvbuf is None:
        work = check_buffer("sendbuf", sendbuf, comm, reduce=True)
    else:
        given = _contiguous("sendbuf", sendbuf, comm)
        check_buffer("sendbuf", given, comm, reduce=True, writable=False)
        result = check_buffer("recvbuf", recvbuf, comm, reduce=True)
        work = given
    bounds = bounds_of("counts", counts, int(work.size), comm)
    mine = slice(*bounds[comm.Get_rank() : comm.Get_rank() + 2])
    if recvbuf is not None:
        check_alike(given, result, mine.stop - mine.start, comm)
        work = namespace(given).array(given, order="C")
    call(reduce_scatter_job(work, op, counts, comm), comm, **options)
    part = flat(work)[mine]
    if recvbuf is None:
        return part
    flat(result)[...] = part
    return recvbuf


@checked
def allgather(
    sendbuf: Any,
    recvbuf: Any = None,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Gather the parts of all ranks, in order of ranks, on every rank.

    Args:
        sendbuf: this rank's part of the flat result. Without ``recvbuf``: the
            whole result, C-contiguous, in which this rank's part is filled in.
        recvbuf: C-contiguous array for the whole result, or None.
        counts: elements of each rank's part; None: lengths that differ by at most one.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None.

    Raises:
        TypeError: not an array, of a dtype without a fixed size, or of different dtypes.
        ValueError: not contiguous, read-only, of another length, or no such algorithm or
            executor.
    """
    if recvbuf is None:
        result = check_buffer("sendbuf", sendbuf, comm)
    else:
        given = _contiguous("sendbuf", sendbuf, comm)
        check_buffer("sendbuf", given, comm, writable=False)
        result = check_buffer("recvbuf", recvbuf, comm)
        bounds = bounds_of("counts", counts, int(result.size), comm)
        start, stop = bounds[comm.Get_rank() : comm.Get_rank() + 2]
        if stop - start != given.size:
            raise ValueError(
                f"sendbuf: has {given.size} elements; this rank's part of recvbuf "
                f"({result.size} elements) has {stop - start}{at(comm)}"
            )
        check_alike(given, result, int(result.size), comm)
        flat(result)[start:stop] = flat(given)
    call(allgather_job(result, counts, comm), comm, **options)
    return sendbuf if recvbuf is None else recvbuf


@checked
def alltoall(
    sendbuf: Any,
    recvbuf: Any,
    *,
    sendcounts: Sequence[int] | None = None,
    recvcounts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Send part j of ``sendbuf`` to rank j; part i of ``recvbuf`` is what rank i sent.

    Args and errors as for `collectives.plans.plan_alltoall`.

    Returns:
        ``recvbuf``.
    """
    call(alltoall_job(sendbuf, recvbuf, sendcounts, recvcounts, comm), comm, **options)
    return recvbuf


@checked
def gather(
    sendbuf: Any,
    recvbuf: Any = None,
    root: int = 0,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Gather each rank's ``sendbuf`` in ``recvbuf`` at ``root``, in order of ranks.

    Args and errors as for `collectives.plans.plan_gather`.

    Returns:
        ``recvbuf``; None on other ranks than ``root``, if they gave none.
    """
    sendbuf = _contiguous("sendbuf", sendbuf, comm)
    call(rooted_job(GATHER, sendbuf, recvbuf, root, counts, comm), comm, **options)
    return recvbuf


@checked
def scatter(
    sendbuf: Any,
    recvbuf: Any,
    root: int = 0,
    *,
    counts: Sequence[int] | None = None,
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Any:
    """Give each rank its part of ``sendbuf`` at ``root``; elsewhere ``sendbuf`` may be None.

    Args and errors as for `collectives.plans.plan_scatter`.

    Returns:
        ``recvbuf``.
    """
    if sendbuf is not None:
        sendbuf = _contiguous("sendbuf", sendbuf, comm)
    call(rooted_job(SCATTER, recvbuf, sendbuf, root, counts, comm), comm, **options)
    return recvbuf


@checked
def barrier(*, comm: MPI.Comm, **options: Unpack[Options]) -> None:
    """Return when all ranks have called this.

    Raises:
        ValueError: no such algorithm or executor.
    """
    call(barrier_job(comm), comm, **options)


def _contiguous(name: str, given: Any, comm: MPI.Comm) -> Any:
    """Return an input as an array, or a contiguous copy of it: on the host it has any strides."""
    check_comm(comm)
    array = array_of(name, given, comm, writable=False)
    if isinstance(array, np.ndarray) and not (array.flags.c_contiguous or hasattr(array, "mask")):
        return np.ascontiguousarray(array)
    return array


def _result(sendbuf: Any, recvbuf: Any, comm: MPI.Comm) -> Any:
    """Return the buffer to reduce in place: ``sendbuf``, or ``recvbuf`` with a copy of it."""
    if recvbuf is None:
        return check_buffer("sendbuf", sendbuf, comm, reduce=True)
    given = _contiguous("sendbuf", sendbuf, comm)
    check_buffer("sendbuf", given, comm, reduce=True, writable=False)
    result = check_buffer("recvbuf", recvbuf, comm, reduce=True)
    check_alike(given, result, int(given.size), comm)
    flat(result)[...] = flat(given)
    return result
