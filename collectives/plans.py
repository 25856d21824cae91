"""Plans for the collectives: check the arguments, choose an algorithm, bind it to memory.

The functions that take one buffer work in place, and take no second one; `collectives.api` adds
the out-of-place forms.
All checks are done before any communication. Every function takes the keywords of
`collectives.options.Options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from collectives.agreement import agree, checked
from collectives.arguments import at, check_buffer, wants_ranks
from collectives.bind import bind, bind_job, handed_over, in_background
from collectives.blocks import Regions
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
from collectives.op import SUM, Op
from collectives.options import settings_of
from collectives.plan import Plan
from collectives.step import Recv, Round, Send
from collectives.watchdog import watched

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options


@checked
def plan_allreduce(
    buffer: Any,
    op: Op | MPI.Op = SUM,
    *,
    deterministic: str = "run",
    comm: MPI.Comm,
    **options: Unpack[Options],
) -> Plan:
    """Plan an allreduce in place: afterwards every rank's ``buffer`` holds the reduction.

    Args:
        buffer: C-contiguous array on the host or on a device, of one shape and dtype on all ranks.
        op: SUM, PROD, MIN, MAX, of this package or of MPI, or another `Op`.
        deterministic: "run": the same bits in every run on as many ranks; "ranks": on any number
            of ranks too, whatever the order of the summands, at the price that
            `collectives.reproducible` tells, and with +0.0 for every sum of zero; for SUM.
        comm: the communicator.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, or no such algorithm or executor.
    """
    _check_one_array(op, options, comm)
    if wants_ranks(deterministic, op, comm):
        from collectives.reproducible import plan_allreduce_reproducible

        return plan_allreduce_reproducible(buffer, comm=comm, **options)
    return bind_job(allreduce_job(buffer, op, comm), comm, **options)


@checked
def plan_reduce(
    buffer: Any, op: Op | MPI.Op = SUM, root: int = 0, *, comm: MPI.Comm, **options: Unpack[Options]
) -> Plan:
    """Plan a reduction to ``root``, in place; the other ranks' buffers are used as scratch.

    Raises:
        TypeError: not an array, or of a dtype that cannot be reduced.
        ValueError: not contiguous, read-only, no such root, or no such algorithm or executor.
    """
    _check_one_array(op, options, comm)
    return bind_job(reduce_job(buffer, op, root, comm), comm, **options)


@checked
def plan_bcast(buffer: Any, root: int = 0, *, comm: MPI.Comm, **options: Unpack[Options]) -> Plan:
    """Plan a broadcast from ``root``, in place. Any dtype of fixed size.

    Raises:
        TypeError: not an array, or of a dtype without a fixed size.
        ValueError: not contiguous, read-only, no such root, or no such algorithm or executor.
    """
    return bind_job(bcast_job(buffer, root, comm), comm, **options)


@checked
def plan_reduce_scatter(
    buffer: Any,
    op: Op | MPI.Op = SUM,
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
    _check_one_array(op, options, comm)
    return bind_job(reduce_scatter_job(buffer, op, counts, comm), comm, **options)


@checked
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
    return bind_job(allgather_job(buffer, counts, comm), comm, **options)


@checked
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
    return bind_job(alltoall_job(sendbuf, recvbuf, sendcounts, recvcounts, comm), comm, **options)


@checked
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
    return bind_job(rooted_job(GATHER, sendbuf, recvbuf, root, counts, comm), comm, **options)


@checked
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
    return bind_job(rooted_job(SCATTER, recvbuf, sendbuf, root, counts, comm), comm, **options)


@checked
def plan_barrier(*, comm: MPI.Comm, **options: Unpack[Options]) -> Plan:
    """Plan a barrier: it ends when all ranks have started it.

    Raises:
        ValueError: no such algorithm or executor.
    """
    return bind_job(barrier_job(comm), comm, **options)


@checked
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
    checked: list[Any] = []
    for name, arrays, peers in (
        ("sendbufs", sendbufs, destinations),
        ("recvbufs", recvbufs, sources),
    ):
        if len(arrays) != len(peers):
            raise ValueError(f"{name}: are {len(arrays)} for {len(peers)} ranks{at(comm)}")
        for i, (array, peer) in enumerate(zip(arrays, peers, strict=True)):
            writable = name == "recvbufs"
            checked.append(
                check_buffer(f"{name}[{i}]", array, comm, contiguous=False, writable=writable)
            )
            if not -1 <= peer < comm.Get_size():
                raise ValueError(f"{name}[{i}]: there is no rank {peer}{at(comm)}")
    goes: Round = [Send(peer, i) for i, peer in enumerate(destinations)]
    comes: Round = [Recv(peer, len(sendbufs) + i) for i, peer in enumerate(sources)]
    settings = settings_of(options)
    if settings.algorithm != "auto":
        raise ValueError(
            f"algorithm={settings.algorithm!r}: there is one for neighbours only; leave it "
            f"out{at(comm)}"
        )
    if settings.check:
        agree(comm, "neighbor", settings.compared)

    if settings.background:
        settings = in_background(settings, comm)

    def make() -> Plan:
        made = bind(
            [goes + comes],
            Regions(checked),
            comm,
            executor=settings.executor,
            traffic=None if settings.background else settings.traffic,
        )
        return handed_over(made, comm, settings)

    return make() if settings.timeout is None else watched(make, comm, settings.timeout)


def _check_one_array(op: Any, options: Mapping[str, Any], comm: MPI.Comm) -> None:
    """Check that a plan of a reduction is not given a second array.

    Raises:
        TypeError: it is.
    """
    name = "recvbuf" if "recvbuf" in options else "op"
    if name in options or hasattr(op, "dtype"):
        raise TypeError(
            f"{name}: is a second array; plans of reductions are in place and take one: copy the "
            f"data into the array of the result before each run, and pass that alone{at(comm)}"
        )
