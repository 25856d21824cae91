"""A drop-in for the communicators of mpi4py: `as_intracomm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from mpi4py import MPI

from collectives.channel import check_comm
from collectives.intracomm.communicators import Cartcomm, Distgraphcomm, Graphcomm, Intracomm, adopt
from collectives.intracomm.engine import Family
from collectives.intracomm.settings import LIBRARY, OURS, DropInSettings

if TYPE_CHECKING:
    from collectives.intracomm.report import Report
    from collectives.table import Table

__all__ = ["LIBRARY", "OURS", "Cartcomm", "Distgraphcomm", "Graphcomm", "Intracomm", "as_intracomm"]


def as_intracomm(
    comm: MPI.Intracomm,
    *,
    allreduce: str = "auto",
    reduce: str = "auto",
    bcast: str = "auto",
    reduce_scatter: str = "auto",
    allgather: str = "auto",
    alltoall: str = "auto",
    gather: str = "auto",
    scatter: str = "auto",
    barrier: str = "auto",
    executor: str = "auto",
    table: Table | None = None,
    report: Report | None = None,
    check: bool = False,
    timeout: float | None = None,
) -> Intracomm:
    """Return a communicator of mpi4py whose collectives on buffers may be ours. Collective.

    It is an ``MPI.Intracomm``, so any program of mpi4py runs on it. Allreduce, Reduce, Bcast,
    Allgather(v), Reduce_scatter(_block), Alltoall(v), Gather(v), Scatter(v) and Barrier, their
    non-blocking and their persistent forms can be ours, and take all that mpi4py takes; all else is
    the library's. Communicators made from it (Split, Dup, Create_cart and the others) are as it is;
    what Idup gives has the library's calls.

    Where nothing is said ("auto"), a call is ours only where that was measured to be quicker than
    the library's own call (see `collectives.intracomm.quicker`), so that no program becomes slower.
    Who gives an ``executor`` or a ``table`` has ours.

    It shares the handle of ``comm``: free one of the two, once. The library's own call is made in
    any case for reductions with an operation that does not commute or with a datatype of the user,
    for a root that does not exist, and, where MPI does not allow threads, for what is not blocking.
    All that depends only on what is the same on all ranks. In calls that are ours, NaNs and the
    sign of zeros under MIN and MAX are those of numpy.

    Args:
        comm: an intracommunicator, also one with a topology.
        allreduce: the algorithm of Allreduce, as ``python -m collectives list`` shows them, with
            tunables where it has some (``chain:segments=8``); "ours": what of ours suits the
            length; "library": the library's own call; or "auto": the quicker one.
        reduce: the same of Reduce.
        bcast: of Bcast.
        reduce_scatter: of Reduce_scatter and Reduce_scatter_block.
        allgather: of Allgather and Allgatherv.
        alltoall: of Alltoall and, where it passes nothing on, Alltoallv.
        gather: of Gather. Gatherv always goes straight to the root, which alone knows the counts.
        scatter: of Scatter; for Scatterv the same holds.
        barrier: of Barrier.
        executor: "python", "native", "shared" or "auto" (see `collectives.options.Options`).
        table: what `collectives.tune` measured; it rules what "auto" means.
        report: counts the calls.
        check: compare each call on all ranks first, those of the library too: where they differ,
            all ranks raise `collectives.AgreementError`. The non-blocking forms, which must not
            wait for other ranks, are not compared.
        timeout: seconds after which a wait in a call, or for a request of ours, shows the stacks
            of all ranks and ends the job.

    Raises:
        TypeError: ``comm`` is not a communicator, or an option is of another type.
        ValueError: it is MPI.COMM_NULL or has two groups, there is no such algorithm or executor,
            or ``timeout`` is not above 0.
    """
    check_comm(comm)
    algorithms = {
        "allreduce": allreduce,
        "reduce": reduce,
        "bcast": bcast,
        "reduce_scatter": reduce_scatter,
        "allgather": allgather,
        "alltoall": alltoall,
        "gather": gather,
        "scatter": scatter,
        "barrier": barrier,
    }
    settings = DropInSettings(algorithms, executor, table, report, check, timeout)
    return cast("Intracomm", adopt(comm, Family(settings)))
