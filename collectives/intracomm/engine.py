"""What does the collectives of one drop-in communicator."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI

from collectives.bind import bind_job
from collectives.calls import call
from collectives.channel import open_channel
from collectives.collective import COLLECTIVES
from collectives.executors.native import numba_is_there
from collectives.intracomm import reduce
from collectives.intracomm.alone import Alone
from collectives.intracomm.progress import Progress
from collectives.intracomm.quick import Quick
from collectives.intracomm.report import Report, Shape, Way
from collectives.intracomm.request import Gate, NonBlocking, Persistent
from collectives.intracomm.running import Running
from collectives.intracomm.settings import LIBRARY, DropInSettings
from collectives.intracomm.work import Here, Work
from collectives.plan import Plan
from collectives.registry import REGISTRY
from collectives.select import choose

if TYPE_CHECKING:
    from collectives.options import Options

BY_LIBRARY = Way(LIBRARY, "")

Reader: TypeAlias = "Callable[..., Work | None]"
"""Reads the arguments of a call (see `collectives.intracomm.reduce` and its neighbours)."""


class Family:
    """What communicators have in common that were made from one another.

    Args:
        settings: how their collectives are done.
    """

    def __init__(self, settings: DropInSettings) -> None:
        self.settings = settings
        self.alone = Alone()
        self.progress = Progress()


class Engine:
    """Does the collectives of one communicator. Collective: it makes a private duplicate.

    Args:
        comm: the communicator.
        family: that it belongs to.
    """

    def __init__(self, comm: MPI.Intracomm, family: Family) -> None:
        self.family = family
        self._comm = MPI.Intracomm(comm)
        self._settings = family.settings
        self._progress = family.progress
        self._channel = open_channel(self._comm)
        self._gate = Gate()
        self._quick = Quick(self._comm)
        self._persistent: weakref.WeakValueDictionary[int, Persistent] = (
            weakref.WeakValueDictionary()
        )
        # Only the Python executor works on memory of a device. All ranks must run the same plan,
        # whatever memory each has, so with the others such memory is copied.
        direct = family.settings.executor == "python"
        self._here = Here(comm.Get_rank(), comm.Get_size(), family.alone, direct, self._collect)

    def run(self, collective: str, read: Reader, library: Callable[..., None], *args: Any) -> None:
        """Do a collective.

        Args:
            collective: its name.
            read: reads its arguments.
            library: the library's own call, for what is not ours.
            *args: the arguments.
        """
        if self._settings.report is not None:
            self._run_counted(self._settings.report, collective, read, library, args)
            return
        work = self._read(collective, read, args)
        if work is None:
            library(*args)
        else:
            self._run(collective, work)

    def allreduce(self, library: Callable[..., None], *args: Any) -> None:
        """Do an allreduce, as `run` does: in the shortest way, once its like was done."""
        if self._settings.report is not None or self._persistent:
            self.run("allreduce", reduce.allreduce, library, *args)
        elif not self._quick.allreduce(*args):
            work = self._read("allreduce", reduce.allreduce, args)
            if work is None:
                library(*args)
                return
            self._run_now("allreduce", work)
            self._quick.learn(args[1], args[2], work.job, self._options("allreduce", work))

    def _run_counted(
        self,
        report: Report,
        collective: str,
        read: Reader,
        library: Callable[..., None],
        args: tuple[Any, ...],
    ) -> None:
        tally, begin = report.tally(), perf_counter()
        work = self._read(collective, read, args)
        if work is None:
            library(*args)
            tally.add(perf_counter() - begin, BY_LIBRARY, None)
        else:
            way = Way(*self._run(collective, work))
            tally.add(perf_counter() - begin, way, self._shape(work))

    def _run(self, collective: str, work: Work) -> tuple[str, str]:
        if not self._persistent:
            return self._run_now(collective, work)
        with self._gate.lock:
            self._gate.busy = True
            for persistent in list(self._persistent.values()):
                persistent.begin_if_started()
        try:
            return self._run_now(collective, work)
        finally:
            self._gate.busy = False

    def start(
        self, collective: str, read: Reader, library: Callable[..., MPI.Request], *args: Any
    ) -> MPI.Request:
        """Begin a collective; args as for `run`."""
        report = self._settings.report
        tally, begin = None if report is None else report.tally(), perf_counter()
        work = self._read(collective, read, args) if self._progress.able else None
        if work is None:
            made = library(*args)
            if tally is not None:
                tally.add(perf_counter() - begin, BY_LIBRARY, None)
            return made
        plan, running, handle_tag = self._prepare(collective, work, once=True)
        handle = self.family.alone.open_handle(handle_tag)
        running.begin()
        if tally is not None:
            way = Way(plan.algorithm, plan.executor)
            tally.add(perf_counter() - begin, way, self._shape(work))
        return NonBlocking(handle, running, self._progress, tally)

    def persist(
        self,
        collective: str,
        read: Reader,
        library: Callable[..., MPI.Prequest],
        info: MPI.Info,
        *args: Any,
    ) -> MPI.Prequest:
        """Make a persistent collective; args as for `run`."""
        work = self._read(collective, read, args) if self._progress.able else None
        if work is None:
            return library(*args, info)
        report = self._settings.report
        tally = None if report is None else report.tally()
        plan, running, handle_tag = self._prepare(collective, work, once=False)
        way, shape = Way(plan.algorithm, plan.executor), self._shape(work)

        def count(seconds: float) -> None:
            if tally is not None:  # a call is a start
                tally.add(seconds, way, shape)

        alone = self.family.alone
        made = Persistent(
            alone.persistent_handle(handle_tag),
            running,
            self._progress,
            self._gate,
            partial(alone.is_open, handle_tag),
            tally,
            count,
            partial(self._channel.give_back, running.tag),
        )
        self._persistent[id(made)] = made
        return made

    def _prepare(self, collective: str, work: Work, *, once: bool) -> tuple[Plan, Running, int]:
        """Return a plan, a run of it, and the tag of the handle that it is to complete.

        Nothing here waits for other ranks, not even to agree on how to do it.
        """
        options = self._options(collective, work)
        if options["algorithm"] == "auto":
            options["algorithm"] = self._choice(work)
        if options["executor"] != "python":
            options["executor"] = "auto"
        channel, alone = self._channel, self.family.alone
        tag = channel.call_tag() if once else channel.take_tag()
        plan = bind_job(work.job, self._comm, tag=tag, **options)
        handle_tag = alone.tag()
        complete = partial(alone.complete, handle_tag)
        running = Running(plan, work, tag, channel.in_flight, self._progress, complete, once=once)
        return plan, running, handle_tag

    def _read(self, collective: str, read: Reader, args: tuple[Any, ...]) -> Work | None:
        if self._settings.algorithms[collective] == LIBRARY:
            return None
        return read(self._here, *args)

    def _run_now(self, collective: str, work: Work) -> tuple[str, str]:
        for copy in work.before:
            copy()
        way = call(work.job, self._comm, **self._options(collective, work))
        for copy in work.after:
            copy()
        return way

    def _shape(self, work: Work) -> Shape:
        return Shape(work.job.collective.name, self._here.size, int(work.job.nbytes))

    def _options(self, collective: str, work: Work) -> Options:
        executor = self._settings.executor
        if not work.job.op.is_built_in:
            executor = "python"  # nobody else can call such an operation
        elif work.only and executor == "shared":
            executor = "auto"
        algorithm = work.only or self._settings.algorithms[collective]
        if work.job.straight:
            algorithm = self._straight(algorithm)
        return {"algorithm": algorithm, "executor": executor, "table": self._settings.table}

    def _straight(self, wanted: str) -> str:
        """Return an alltoall that passes nothing on: the one that is wanted, or pairwise."""
        collective, size = COLLECTIVES["alltoall"], self._here.size
        if wanted == "auto" or REGISTRY.get(collective, wanted).blocks(size) != 2 * size:
            return "pairwise"
        return wanted

    def _choice(self, work: Work) -> str:
        executors = ("native", "python") if numba_is_there() else ("python",)
        if self._settings.executor == "python":
            executors = ("python",)
        job, table = work.job, self._settings.table
        return choose(
            job.collective, self._here.size, job.nbytes, table=table, executors=executors
        ).algorithm

    def _collect(self, number: int) -> list[int]:
        numbers = np.empty(self._here.size, np.int64)
        self._channel.comm.Allgather(np.array([number], np.int64), numbers)
        return [int(n) for n in numbers]
