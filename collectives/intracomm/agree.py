"""Compare a call of the drop-in on all ranks before it communicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from mpi4py import MPI

from collectives.agreement import AgreementError, agree, agree_counts, refuse
from collectives.intracomm.work import Work

OF_ONE_LENGTH = ("allreduce", "reduce", "bcast")
ROOTED = ("gather", "scatter")


def agreed(
    comm: MPI.Comm, name: str, how: Mapping[str, object], read: Callable[[], Work | None]
) -> None:
    """Read the arguments of a call, and check that all ranks make the same. Collective.

    Args:
        comm: the communicator.
        name: what the user has called.
        how: what the settings say, by name.
        read: reads the arguments; what it raises is told to the other ranks.

    Raises:
        AgreementError: the calls differ; on all ranks.
    """
    try:
        work = read()
    except AgreementError:
        raise  # of what was compared while they were read: all ranks have it
    except Exception as error:
        refuse(comm, name, error)
        raise
    call: dict[str, object] = {}
    if work is not None:
        call = described(work)
    agree(comm, name, {**call, **how})
    if work is not None and work.job.straight:
        bounds = work.job.bounds, work.job.target_bounds
        agree_counts(comm, name, *([b - a for a, b in pairwise(ends)] for ends in bounds))


def described(work: Work) -> dict[str, object]:
    """Return what must be the same on all ranks, by name."""
    job, name = work.job, work.job.collective.name
    call: dict[str, object] = {}
    parts = [stop - start for start, stop in pairwise(job.bounds)]
    if name in OF_ONE_LENGTH:
        call["bytes"] = job.nbytes
    elif name in ROOTED:
        if not work.only:  # else the root alone knows all lengths
            call["bytes of each rank"] = parts[0]
    elif name == "alltoall":
        if not job.straight:
            call["bytes for each rank"] = parts[0]
    elif name != "barrier":
        call["bytes of each rank"] = [n * int(job.array.dtype.itemsize) for n in parts]
    if name in ("allreduce", "reduce", "reduce_scatter"):
        call |= {"dtype": job.array.dtype, "op": job.op}
    if name in ("reduce", "bcast", *ROOTED):
        call["root"] = job.root
    return call
