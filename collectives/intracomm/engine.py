"""What does the collectives of one drop-in communicator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from mpi4py import MPI

from collectives.bind import bind_job
from collectives.channel import open_channel
from collectives.collective import ALLTOALL, COLLECTIVES, Collective
from collectives.intracomm.alone import Alone
from collectives.intracomm.progress import Progress
from collectives.intracomm.request import NOTHING, NonBlocking, Persistent, Running, completer
from collectives.intracomm.settings import LIBRARY, DropInSettings
from collectives.intracomm.work import Here, Work
from collectives.plan import Plan
from collectives.registry import REGISTRY

if TYPE_CHECKING:
    from collectives.options import Options

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
        self._channel = open_channel(comm)
        self._here = Here(comm.Get_rank(), comm.Get_size(), family.alone, self._collect)

    def run(self, collective: str, read: Reader, library: Callable[..., None], *args: Any) -> None:
        """Do a collective.

        Args:
            collective: its name.
            read: reads its arguments.
            library: the library's own call, for what is not ours.
            *args: the arguments.
        """
        work = self._read(collective, read, args)
        if work is None:
            library(*args)
            return
        plan = self._bind(collective, work, self._channel.call_tag())
        if not self._progress.under_way:
            for copy in work.before:
                copy()
            plan.run()
            for copy in work.after:
                copy()
        else:
            running = Running(plan, work, lambda: None)
            with self._progress.lock:
                running.begin()
            self._progress.wait(running)
            running.raise_error()
        plan.close()

    def start(
        self, collective: str, read: Reader, library: Callable[..., MPI.Request], *args: Any
    ) -> MPI.Request:
        """Begin a collective; args as for `run`."""
        work = self._read(collective, read, args) if self._progress.able else None
        if work is None:
            return library(*args)
        plan = self._bind(collective, work, self._channel.call_tag())
        alone, tag = self.family.alone, self.family.alone.tag()
        complete = completer(alone, tag)

        def finish() -> None:
            plan.close()
            complete()

        running = Running(plan, work, finish)
        handle = alone.comm.Irecv(NOTHING, 0, tag)
        with self._progress.lock:
            running.begin()
            self._progress.add(running)
        return NonBlocking(handle, running, self._progress)

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
        plan = self._bind(collective, work, None)
        alone, tag = self.family.alone, self.family.alone.tag()
        running = Running(plan, work, completer(alone, tag))
        return Persistent(alone.comm.Recv_init(NOTHING, 0, tag), running, self._progress)

    def _read(self, collective: str, read: Reader, args: tuple[Any, ...]) -> Work | None:
        if self._settings.algorithms[collective] == LIBRARY:
            return None
        return read(self._here, *args)

    def _bind(self, name: str, work: Work, tag: int | None) -> Plan:
        options: Options = {
            "algorithm": self._algorithm(COLLECTIVES[name], work),
            "executor": self._settings.executor,
        }
        if not work.job.op.is_built_in and options["executor"] != "python":
            options["executor"] = "auto"  # an operation that only Python can call
        return bind_job(work.job, self._comm, tag=tag, **options)

    def _algorithm(self, collective: Collective, work: Work) -> str:
        wanted = self._settings.algorithms[collective.name]
        if work.only:
            return work.only
        if collective is ALLTOALL and work.job.straight and wanted != "auto":
            size = self._here.size
            passes_on = REGISTRY.get(collective, wanted).blocks(size) != 2 * size
            return "auto" if passes_on else wanted
        return wanted

    def _collect(self, number: int) -> list[int]:
        numbers = np.empty(self._here.size, np.int64)
        self._channel.comm.Allgather(np.array([number], np.int64), numbers)
        return [int(n) for n in numbers]
