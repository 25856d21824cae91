"""Calls that are made once and again: their plans are kept, and run on the memory of each call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from time import perf_counter
from typing import TYPE_CHECKING

from mpi4py import MPI

from collectives.bind import Job, bind_job, check_agreement
from collectives.channel import BROKEN, open_channel
from collectives.executors.native import can_run
from collectives.options import Settings, settings_of
from collectives.plan import Plan

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options

KEPT = 128
"""How many plans a communicator keeps; the one that was used longest ago goes first."""


class Calls:
    """The plans that a communicator keeps.

    All ranks make the same calls in the same order, so all keep the same plans.

    Attributes:
        interrupted: the arrays of calls that an exception has interrupted: others may write to them
            still, and the plans do not hold them.
    """

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, Plan] = OrderedDict()
        self.interrupted: list[object] = []

    def get(self, key: Hashable) -> Plan | None:
        """Return the plan for a kind of call, if there is one."""
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
        return plan

    def keep(self, key: Hashable, plan: Plan) -> None:
        """Keep a plan; close the one that was used longest ago, if there are too many."""
        self._plans[key] = plan
        if len(self._plans) > KEPT:
            self._plans.popitem(last=False)[1].close()

    def close(self) -> None:
        """Forget all: they end with the communicator, which is about to be freed."""
        self._plans.clear()


def call(job: Job, comm: MPI.Comm, **options: Unpack[Options]) -> tuple[str, str]:
    """Do a job now, with a plan that was kept from a like call if there is one.

    Plans are kept where their memory can be exchanged: on the host, and not by the Python executor.
    What tells so is the same on all ranks: where one keeps a plan, all do.

    Returns:
        The algorithm and the executor that did it.
    """
    arrays = [a for a in (job.source, job.target) if a is not None]
    settings = settings_of(options)
    if settings.check:
        check_agreement(job, comm, settings)
        options["check"] = False
    keeps = (
        job.layout is not None
        and settings.timeout is None
        and not settings.background
        and settings.executor != "python"
        and can_run(job)
    )
    if not keeps:
        with bind_job(job, comm, **options) as plan:
            plan.run()
        return plan.algorithm, plan.executor
    channel = open_channel(comm)
    calls = channel.companion(Calls, Calls)
    key = key_of(job, settings)
    kept = calls.get(key)
    options["traffic"] = None  # kept plans serve all calls; `_run` counts
    plan = kept or bind_job(job, comm, **options)
    try:
        if kept is not None:
            kept.rebind(*arrays)
            _run(kept, settings)
        else:
            _run(plan, settings)
            if plan.can_rebind:
                plan.rebind(*arrays)  # so it forgets them
                calls.keep(key, plan)
            else:
                plan.close()
    except BaseException as error:
        calls.interrupted += [arrays]
        channel.in_flight.setdefault(BROKEN, plan)
        channel.break_off(plan, error)
        raise
    return plan.algorithm, plan.executor


def _run(plan: Plan, settings: Settings) -> None:
    begin = perf_counter()
    plan.run()
    if settings.traffic is not None:
        settings.traffic.add(plan.messages, plan.bytes_sent, perf_counter() - begin)


def calls_of(comm: MPI.Comm) -> Calls:
    """Return the plans that a communicator keeps."""
    return open_channel(comm).companion(Calls, Calls)


def key_of(job: Job, settings: Settings) -> Hashable:
    """Return what calls have in common that one plan can serve."""
    return (
        job.collective.name,
        job.layout,
        job.nbytes,
        job.array.dtype,
        job.op,
        job.root,
        settings.algorithm,
        settings.executor,
        settings.table,
    )
