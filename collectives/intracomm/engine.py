"""What does the collectives of one drop-in communicator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI

from collectives.agreement import agree
from collectives.bind import bind_job
from collectives.bound import BoundPlan
from collectives.calls import call
from collectives.channel import Channel, open_channel
from collectives.collective import COLLECTIVES
from collectives.decide import decide
from collectives.executors.native import NotNative, check_numba, numba_is_there
from collectives.executors.shared import SharedPlan, check_shared
from collectives.intracomm import reduce
from collectives.intracomm.agree import agreed
from collectives.intracomm.alone import Alone
from collectives.intracomm.counted import CountedPersistent, CountedRequest, Waited
from collectives.intracomm.lane import Lane
from collectives.intracomm.length import length
from collectives.intracomm.progress import Progress
from collectives.intracomm.quick import Quick
from collectives.intracomm.quicker import quicker
from collectives.intracomm.report import Shape, Way
from collectives.intracomm.request import NonBlocking, Persistent
from collectives.intracomm.running import Running
from collectives.intracomm.settings import LIBRARY, OURS, DropInSettings
from collectives.intracomm.work import Here, Work
from collectives.options import settings_of
from collectives.plan import Plan
from collectives.registry import REGISTRY
from collectives.select import choose
from collectives.sharedmemory import SharedMemoryError
from collectives.watchdog import Pack, limited, pack_of
from collectives.window import open_node, split_by_node

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from collectives.options import Options

BY_LIBRARY = Way(LIBRARY, "")

OPEN = {"auto", LIBRARY}
"""What leaves a call to the library, or may do so."""

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
    """Does the collectives of one communicator.

    Collective where something of it is ours whatever its length: then a private duplicate is made
    here. Otherwise that is done when it is needed, so that a program whose calls are all left to
    the library does not pay for it.

    Args:
        comm: the communicator.
        family: that it belongs to.
    """

    def __init__(self, comm: MPI.Intracomm, family: Family) -> None:
        self.family = family
        self._comm = comm
        self._settings = settings = family.settings
        self._wanted = {name: settings.wanted(name) for name in settings.algorithms}
        self._progress = family.progress
        self._opened: Channel | None = None
        self._plain = comm
        self._one_node: bool | None = None
        self._how: Mapping[str, object] = {}
        self._quick: Quick | None = None
        self._told = settings.report is not None or settings.check or settings.timeout is not None
        # Only the Python executor works on memory of a device. All ranks must run the same plan,
        # whatever memory each has, so with the others such memory is copied.
        direct = settings.executor == "python"
        self._here = Here(comm.Get_rank(), comm.Get_size(), family.alone, direct, self._collect)
        if settings.check:
            # Before anything here that waits without a limit: not all ranks may do it.
            timeout = None if settings.timeout is None else "one"
            agree(MPI.Intracomm(comm), "as_intracomm", {"timeout": timeout})
        if settings.check or settings.timeout is not None or set(self._wanted.values()) - OPEN:
            self._open()
        if settings.check:
            how = {"executor": settings.executor, "table": settings.table}
            self._how = settings_of(how).compared
            # Ranks whose calls differ may not agree on whether to find this out.
            self._one_node = self._here.size > 1 and self._find_node()
        # Kept, as requests may be waited for after the communicator was freed.
        self._pack: Pack | None = None if settings.timeout is None else pack_of(self._plain)

    @property
    def told(self) -> bool:
        """Whether each call is counted, compared or watched."""
        return self._told

    def wanted(self, collective: str) -> str:
        """Return how a collective is to be done (see `DropInSettings.wanted`)."""
        return self._wanted[collective]

    def run(self, collective: str, read: Reader, library: Callable[..., None], *args: Any) -> None:
        """Do a collective.

        Args:
            collective: its name.
            read: reads its arguments.
            library: the library's own call, for what is not ours.
            *args: the arguments.
        """
        if self._told:
            self._run_told(collective, read, library, args)
            return
        work, ours = self._read(collective, read, args)
        if work is None or not ours:
            library(*args)
        else:
            self._do(collective, work)

    def allreduce(self, library: Callable[..., None], *args: Any) -> None:
        """Do an allreduce, as `run` does: in the shortest way, once its like was done."""
        if self._told:
            self._run_told("allreduce", reduce.allreduce, library, args)
        elif self._quick is None or not self._quick.allreduce(*args):
            work, ours = self._read("allreduce", reduce.allreduce, args)
            if work is None or not ours:
                library(*args)
                return
            self._do("allreduce", work)
            if self._quick is None:
                self._quick = Quick(self._plain)
            self._quick.learn(args[1], args[2], work.job, self._options("allreduce", work))

    def _run_told(
        self, collective: str, read: Reader, library: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        report, name = self._settings.report, library.__name__
        tally, begin = None if report is None else report.tally(), perf_counter()
        work, ours = self._compared(collective, name, read, args)
        with self._limit(name):
            if work is None or not ours:
                library(*args)
                way = BY_LIBRARY
            else:
                way = Way(*self._do(collective, work))
        seconds = perf_counter() - begin
        if tally is not None:
            tally.add(seconds, way, self._shape(collective, name, args))

    def start(
        self, collective: str, read: Reader, library: Callable[..., MPI.Request], *args: Any
    ) -> MPI.Request:
        """Begin a collective; args as for `run`. Nothing here waits for other ranks."""
        report, name = self._settings.report, library.__name__
        tally, begin = None if report is None else report.tally(), perf_counter()
        work = None
        if self._progress.able and self._wanted[collective] not in OPEN:
            work, _ = self._read(collective, read, args)
        if work is None:
            made = library(*args)
            seconds = perf_counter() - begin
            if tally is None:
                return made
            shape = self._shape(collective, name, args)
            return CountedRequest(made, tally.add(seconds, BY_LIBRARY, shape))
        plan, running, handle_tag = self._prepare(collective, work, once=True)
        handle = self.family.alone.open_handle(handle_tag)
        running.begin()
        seconds, waited = perf_counter() - begin, None
        if tally is not None:
            way = Way(plan.algorithm, plan.executor)
            waited = tally.add(seconds, way, self._shape(collective, name, args))
        return NonBlocking(handle, running, self._progress, waited, partial(self._limit, name))

    def persist(
        self,
        collective: str,
        read: Reader,
        library: Callable[..., MPI.Prequest],
        info: MPI.Info,
        *args: Any,
    ) -> MPI.Prequest:
        """Make a persistent collective; args as for `run`."""
        work = None
        report, name = self._settings.report, library.__name__
        tally = None if report is None else report.tally()
        with self._limit(name):
            able = self._progress.able and self._wanted[collective] not in OPEN
            if able or self._settings.check:
                found, _ = self._compared(collective, name, read, args)
                work = found if able else None
            if work is None:
                made, way = library(*args, info), BY_LIBRARY
            else:
                plan, running, handle_tag = self._prepare(collective, work, once=False)
                way = Way(plan.algorithm, plan.executor)
        count: Callable[[float], Waited] | None = None
        if tally is not None:  # a call is a start
            shape = self._shape(collective, name, args)
            count = partial(tally.add, way=way, shape=shape)
        if work is None:
            return made if count is None else CountedPersistent(made, count)
        alone = self.family.alone
        return Persistent(
            alone.persistent_handle(handle_tag),
            running,
            self._progress,
            partial(alone.is_open, handle_tag),
            count,
            partial(self._limit, name),
        )

    def _prepare(self, collective: str, work: Work, *, once: bool) -> tuple[Plan, Running, int]:
        """Return a plan, a run of it, and the tag of the handle that it is to complete.

        Where it runs only ``once``, nothing here waits for other ranks, not even to agree on how to
        do it, nor to share memory. A persistent one may do so, as in MPI.
        """
        options = self._options(collective, work)
        channel, alone = self._open(), self.family.alone
        tag = channel.call_tag() if once else channel.take_tag()
        lane = None if once else self._lane(work, tag, options)
        plan: Plan
        if lane is not None:
            plan = SharedPlan(work.job, self._plain, node=lane)
        else:
            if options["algorithm"] == "auto":
                options["algorithm"] = self._choice(work)
            if options["executor"] != "python":
                options["executor"] = "auto"
            plan = bind_job(work.job, self._plain, tag=tag, **options)
        if not once and isinstance(plan, BoundPlan):
            channel.hold(plan)
        handle_tag = alone.tag()
        complete = partial(alone.complete, handle_tag)

        def release() -> None:
            if lane is not None:
                lane.close()
            if not once:
                channel.give_back(tag)

        running = Running(
            plan, work, tag, channel, self._progress, complete, release, lane, once=once
        )
        return plan, running, handle_tag

    def _lane(self, work: Work, tag: int, options: Options) -> Lane | None:
        """Return shared memory for a persistent plan, where that is what suits. Collective."""
        if decide(work.job, self._plain, settings_of(options)).executor != "shared":
            return None
        try:
            check_numba()
            check_shared(work.job)
            node = open_node(self._plain)
            return Lane(node, tag) if node.whole else None
        except (NotNative, SharedMemoryError):  # on all ranks
            return None

    def _open(self) -> Channel:
        """Return the channel. Collective at first use."""
        if self._opened is None:
            self._plain = MPI.Intracomm(self._comm)  # what is made from it is plain, too
            self._opened = open_channel(self._plain)
        return self._opened

    def _read(
        self, collective: str, read: Reader, args: tuple[Any, ...]
    ) -> tuple[Work | None, bool]:
        """Return what is to be done, where we know how, and whether it is ours."""
        if self._opened is not None:
            self._opened.check()
            if self._opened.freed:
                raise RuntimeError(f"{collective}: this communicator was freed")
        wanted = self._wanted[collective]
        if wanted == LIBRARY:
            return None, False
        work = read(self._here, *args)
        if work is None or wanted != "auto":
            return work, work is not None
        return work, not work.library or self._pays(collective, work)

    def _compared(
        self, collective: str, name: str, read: Reader, args: tuple[Any, ...]
    ) -> tuple[Work | None, bool]:
        """Do as `_read`; compare the call, also one of the library, where that is wished."""
        if not self._settings.check:
            return self._read(collective, read, args)
        found, ours = None, False

        def work() -> Work | None:
            nonlocal found, ours
            found, ours = self._read(collective, read, args)
            return read(self._here, *args) if self._wanted[collective] == LIBRARY else found

        agreed(self._plain, name, {**self._how, "algorithm": self._wanted[collective]}, work)
        return found, ours

    def _pays(self, collective: str, work: Work) -> bool:
        """Return whether ours is quicker than the library. Collective at first use."""
        if not (work.job.op.is_built_in and quicker(collective, work.job.nbytes)):
            return False
        if self._one_node is None:
            self._one_node = self._here.size > 1 and self._find_node()
        return self._one_node

    def _find_node(self) -> bool:
        comm = self._open().comm
        assert isinstance(comm, MPI.Intracomm)
        node = split_by_node(comm)
        whole = node.Get_size() == self._here.size and numba_is_there()
        node.Free()
        return bool(comm.allreduce(whole, MPI.LAND))

    def _limit(self, name: str) -> AbstractContextManager[None]:
        """Return a context in which a wait ends the job that lasts too long."""
        seconds, pack = self._settings.timeout, self._pack
        if seconds is None or pack is None:
            return contextlib.nullcontext()
        return limited(pack, seconds, name)

    def _do(self, collective: str, work: Work) -> tuple[str, str]:
        self._open()
        for copy in work.before:
            copy()
        way = call(work.job, self._plain, **self._options(collective, work))
        for copy in work.after:
            copy()
        return way

    def _shape(self, collective: str, name: str, args: tuple[Any, ...]) -> Shape | None:
        nbytes = length(name, self._here.rank, self._here.size, args)
        return None if nbytes is None else Shape(collective, self._here.size, nbytes)

    def _options(self, collective: str, work: Work) -> Options:
        executor = self._settings.executor
        if not work.job.op.is_built_in:
            executor = "python"  # nobody else can call such an operation
        elif (work.only or work.job.straight) and executor == "shared":
            executor = "auto"  # no rank knows all lengths, and so where to read
        wanted = self._wanted[collective]
        algorithm = work.only or ("auto" if wanted == OURS else wanted)
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
        if self._settings.check:  # other calls do not come here
            agree(self._plain, "Reduce_scatter", {"recvcounts": None})
        numbers = np.empty(self._here.size, np.int64)
        self._open().comm.Allgather(np.array([number], np.int64), numbers)
        return [int(n) for n in numbers]
