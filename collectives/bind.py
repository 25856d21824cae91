"""Bind a schedule to memory and to a communicator, with the executor that suits."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.agreement import agree, agree_counts
from collectives.arguments import at
from collectives.blocks import Blocks, Joined, Regions
from collectives.channel import BROKEN, open_channel
from collectives.collective import Collective
from collectives.decide import DIRECT, decide
from collectives.executors.background import BackgroundPlan
from collectives.executors.layout import MESSAGE_BYTES
from collectives.executors.native import NativePlan, NotNative, can_run, numba_is_there
from collectives.executors.nodes import plan_between_nodes
from collectives.executors.python import PythonPlan
from collectives.executors.shared import SharedPlan
from collectives.op import SUM, Op
from collectives.options import SCHEDULED, Settings, settings_of
from collectives.plan import Plan
from collectives.registry import REGISTRY
from collectives.sharedmemory import SharedMemoryError
from collectives.step import Recv, Round, Send, rotated
from collectives.traffic import Traffic
from collectives.watchdog import watched
from collectives.window import open_node

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options

ROOTED = ("reduce", "bcast", "gather", "scatter")
"""The collectives for which one rank is the root."""


@dataclass(frozen=True, slots=True)
class Job:
    """A call of a collective whose arguments are checked.

    Attributes:
        collective: what to do.
        blocks_of: ``blocks_of(blocks)`` -> the memory, cut in so many blocks.
        nbytes: length of the buffer of a rank, as `collectives.simulate.simulate` takes it.
        op: of the reductions.
        root: of the rooted ones.
        source: the array that is read, where it is another than ``target``.
        target: the array that gets the result; None where this rank gets none.
        bounds: where the parts of the ranks begin, in the array that holds them all.
        target_bounds: the same in ``target``, of an alltoall.
        copy: (source, target) that this rank copies by itself in each run.
        layout: tells, with the other attributes, where all blocks lie in ``source`` and ``target``;
            None: they cannot be exchanged for others.
        straight: only algorithms that send each part straight to its destination will do.
    """

    collective: Collective
    blocks_of: Callable[[int], Blocks]
    nbytes: int
    op: Op = SUM
    root: int = 0
    source: Any = None
    target: Any = None
    bounds: Sequence[int] = ()
    target_bounds: Sequence[int] = ()
    copy: tuple[Any, Any] | None = None
    straight: bool = False
    layout: Hashable | None = None

    @property
    def array(self) -> Any:
        """An array that this rank has in any case: of the dtype of all."""
        return self.target if self.target is not None else self.source

    @property
    def reduces(self) -> bool:
        """Whether the operation matters."""
        return self.collective.name in ("allreduce", "reduce", "reduce_scatter")


def bind_job(
    job: Job, comm: MPI.Comm, *, tag: int | None = None, **options: Unpack[Options]
) -> Plan:
    """Choose how to do a job, and bind it. Collective over ``comm``; in the same order everywhere.

    Args:
        job: what to do.
        comm: the communicator.
        tag: of its messages, as for `bind`.
        **options: see `collectives.options.Options`.

    Raises:
        ValueError: no such algorithm or executor, or it cannot do this.
    """
    settings = settings_of(options)
    if settings.check:
        check_agreement(job, comm, settings)
    channel = open_channel(comm)
    try:
        if settings.timeout is None:
            plan = _bound(job, comm, settings, tag)
        else:
            _warm_up(job)
            plan = watched(lambda: _bound(job, comm, settings, tag), comm, settings.timeout)
        plan.collective = job.collective.name
    except Exception:
        raise
    except BaseException as error:  # as of Ctrl-C: the ranks may count their plans differently now
        channel.in_flight.setdefault(BROKEN, channel)
        channel.break_off(channel, error)
        raise
    return plan


def _warm_up(job: Job) -> None:
    """Load, or compile, what a plan may need: it may take longer than ranks wait for each other."""
    if not numba_is_there():
        return
    from collectives.executors.kernels import has_kernels, kernels_of

    for name in ("program", "together"):
        importlib.import_module(f"collectives.executors.{name}")
    if has_kernels(job.array.dtype, job.op.name):
        kernels_of(np.dtype(job.array.dtype).name)


def check_agreement(job: Job, comm: MPI.Comm, settings: Settings) -> None:
    """Check that all ranks make the same call. Collective over ``comm``.

    Raises:
        AgreementError: they do not; on all ranks.
    """
    name = job.collective.name
    call: dict[str, object] = {"dtype": job.array.dtype}
    if job.layout == () and name != "alltoall":
        call["shape"] = job.array.shape
    elif not job.straight:
        call["counts"] = [stop - start for start, stop in pairwise(job.bounds)]
    if "reduce" in name:
        call["op"] = job.op.description
    if name in ROOTED:
        call["root"] = job.root
    if name == "allreduce":
        call["deterministic"] = "run"  # else it is not this job (see `collectives.reproducible`)
    call |= settings.compared
    agree(comm, name, call)
    if job.straight:
        send, recv = (
            [stop - start for start, stop in pairwise(b)] for b in (job.bounds, job.target_bounds)
        )
        agree_counts(comm, name, send, recv)


def _bound(job: Job, comm: MPI.Comm, settings: Settings, tag: int | None) -> Plan:
    if settings.background:
        settings = in_background(settings, comm)
    decision = decide(job, comm, settings)
    if decision.executor == "shared":
        try:
            return _plan_shared(job, comm, decision.algorithm, settings.traffic)
        except NotNative as error:
            raise ValueError(f'executor="shared": {error}{at(comm)}') from None
    algorithm = REGISTRY.get(job.collective, decision.algorithm)
    executor = decision.executor
    if executor == "auto" and not can_run(job):
        executor = "python"  # on all ranks, also on those that only pass data on
    size, rank = comm.Get_size(), comm.Get_rank()
    blocks = job.blocks_of(algorithm.blocks(size))
    rounds: Iterable[Round] = rotated(algorithm.generate, job.root)(rank, size)
    if job.copy is not None and job.copy[0].size:
        first = len(blocks)
        blocks = Joined(blocks, Regions(list(job.copy)))
        rounds = chain([[Send(rank, first), Recv(rank, first + 1)]], rounds)
    made = bind(
        rounds,
        blocks,
        comm,
        job.op,
        executor=executor,
        traffic=None if settings.background else settings.traffic,
        tag=tag,
        regions=[a for a in (job.source, job.target) if isinstance(a, np.ndarray)],
    )
    made.algorithm = algorithm.spec
    return handed_over(made, comm, settings)


def handed_over(plan: Plan, comm: MPI.Comm, settings: Settings) -> Plan:
    """Return a plan, or what a thread makes of it where that is wanted."""
    if not settings.background:
        return plan
    assert isinstance(plan, NativePlan)
    return BackgroundPlan(plan, open_channel(comm), settings.traffic)


def in_background(settings: Settings, comm: MPI.Comm) -> Settings:
    """Return the settings of a plan that a thread can run.

    Raises:
        ValueError: another executor was asked for, or MPI does not allow for threads.
    """
    if settings.executor not in ("auto", "native"):
        raise ValueError(
            f"background=True: needs the executor native, not {settings.executor}{at(comm)}"
        )
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise ValueError(
            "background=True: MPI was started for a single thread; it needs THREAD_MULTIPLE"
            f"{at(comm)}"
        )
    return replace(settings, executor="native")


def bind(
    rounds: Iterable[Round],
    blocks: Blocks,
    comm: MPI.Comm,
    op: Op = SUM,
    *,
    executor: str = "auto",
    traffic: Traffic | None = None,
    message_bytes: int = MESSAGE_BYTES,
    tag: int | None = None,
    regions: Sequence[Any] = (),
) -> Plan:
    """Bind a schedule. Collective over ``comm``; in the same order on all ranks.

    Args:
        rounds: the rounds of this rank (see `collectives.step`).
        blocks: where the blocks lie. Sizes must agree on both ends of each message.
        comm: an intracommunicator.
        op: what ``Reduce`` does.
        executor: "python", "native", or "auto": native where numba is there and it can do it.
        traffic: counters to add messages, bytes and seconds to.
        message_bytes: messages longer than this are cut in parts; the same on all ranks.
        tag: of its messages, as `Channel.call_tag` gives; None: one of its own.
        regions: arrays that `Plan.rebind` may exchange for others.

    Raises:
        ValueError: no such executor, or it cannot run this.
    """
    if executor not in ("auto", *SCHEDULED):
        raise ValueError(f"executor={executor!r}: is one of auto, {', '.join(SCHEDULED)}")
    options: dict[str, Any] = {"traffic": traffic, "message_bytes": message_bytes, "tag": tag}
    if executor == "native" or (executor == "auto" and numba_is_there()):
        rounds = list(rounds)
        try:
            return NativePlan(rounds, blocks, comm, op, regions=regions, **options)
        except NotNative as error:
            if executor == "native":
                raise ValueError(f'executor="native": {error}') from None
    return PythonPlan(rounds, blocks, comm, op, **options)


def _plan_shared(job: Job, comm: MPI.Comm, algorithm: str, traffic: Traffic | None) -> Plan:
    try:
        node = open_node(comm)
    except SharedMemoryError as error:
        raise NotNative(str(error)) from None
    if node.whole:
        return SharedPlan(job, comm, traffic)
    return plan_between_nodes(job, node, "auto" if algorithm == DIRECT else algorithm, traffic)
