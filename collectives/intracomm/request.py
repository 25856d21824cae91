"""What the non-blocking and the persistent forms return.

The handle that MPI sees is a synchronous send of nothing to this very process, which is received
when the collective is finished; only then is such a send complete. So every function of the library
that takes requests works on it, alone or in a list with others: Waitall, Testany, Startall.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI

from collectives.channel import harmless
from collectives.intracomm.counted import Waited
from collectives.intracomm.progress import Progress
from collectives.intracomm.running import Running

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    _Request = MPI.Request
else:
    # An object must be made by the `__new__` of the very class of MPI that it extends.
    _Request = object


class _Waiting(_Request):
    """What both kinds of requests do."""

    _running: Running
    _progress: Progress
    _waited: Waited | None
    _limit: Callable[[], AbstractContextManager[None]]

    def __new__(cls, handle: MPI.Request, *args: Any) -> Any:
        """Take the handle over."""
        return super().__new__(cls, handle)

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished."""
        self._running.channel.check()
        begin = perf_counter()
        try:
            with self._limit():
                self._progress.wait_for(self._running)
            super().Wait(status)
        except BaseException as error:
            self._running.break_off(error)
            raise
        if self._waited is not None:
            self._waited(perf_counter() - begin)
        self._running.raise_error()
        return True

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished."""
        self._running.channel.check()
        begin = perf_counter()
        try:
            self._progress.go_on()
            self._running.help_others()
            done = super().Test(status)
        except BaseException as error:
            self._running.break_off(error)
            raise
        if self._waited is not None:
            self._waited(perf_counter() - begin)
        self._running.raise_error()
        return done

    def Get_status(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished. The request stays."""
        self._running.channel.check()
        try:
            self._progress.go_on()
            self._running.help_others()
            return super().Get_status(status)
        except BaseException as error:
            self._running.break_off(error)
            raise

    def wait(self, status: MPI.Status | None = None) -> Any:
        """Wait until the collective is finished."""
        self.Wait(status)

    def test(self, status: MPI.Status | None = None) -> tuple[bool, Any | None]:
        """Let the collective go on; return whether it is finished, and None."""
        return self.Test(status), None

    def Cancel(self) -> None:
        """Refuse: MPI cancels no collectives.

        Raises:
            MPI.Exception: MPI.ERR_REQUEST.
        """
        raise MPI.Exception(MPI.ERR_REQUEST)

    def cancel(self) -> None:
        """Refuse, as `Cancel`."""
        self.Cancel()

    def get_status(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished. The request stays."""
        return self.Get_status(status)


class NonBlocking(_Waiting, MPI.Request):
    """A collective under way."""

    def __init__(
        self,
        handle: MPI.Request,
        running: Running,
        progress: Progress,
        waited: Waited | None,
        limit: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._running, self._progress = running, progress
        self._waited, self._limit = waited, limit


class Persistent(_Waiting, MPI.Prequest):
    """A collective that may be started again and again.

    Args:
        handle: what MPI sees.
        running: a run of it.
        progress: looks after it.
        is_started: tells whether the handle is started and not complete.
        count: called with the seconds of each start; returns what takes those of waits for it.
        limit: a context for waits.

    Attributes:
        lock: held by whoever starts it, or begins a run that the library has started.
    """

    def __init__(
        self,
        handle: MPI.Prequest,
        running: Running,
        progress: Progress,
        is_started: Callable[[], bool],
        count: Callable[[float], Waited] | None,
        limit: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._running, self._progress = running, progress
        self._is_started, self._count, self._limit = is_started, count, limit
        self._waited: Waited | None = None
        self.lock = threading.Lock()
        progress.watch(self)

    def Start(self) -> None:
        """Begin. Does not block."""
        self._running.channel.check()
        try:
            with self.lock:
                try:
                    super().Start()
                except MPI.Exception as error:  # it is active or freed: nothing was begun
                    raise harmless(error) from None
                self._begin_if(lambda: True)
        except BaseException as error:
            self._running.break_off(error)
            raise

    def break_off(self, error: BaseException) -> None:
        """Note that an exception came out of the middle of this."""
        self._running.break_off(error)

    def advance(self) -> bool:
        """Begin, if the library has started it; return whether there was nothing to do."""
        return not self.begin_if_started()

    def linger(self) -> bool:
        """Begin, if the library has started it; return whether it has."""
        return self.begin_if_started()

    def begin_if_started(self) -> bool:
        """Begin, if the library's Startall has started it just now. The lock is held."""
        try:
            return self._begin_if(self._is_started)
        except Exception as error:
            self._running.fail(error)  # else the library would wait for it for ever
            return True

    def _begin_if(self, wanted: Callable[[], bool]) -> bool:
        begin = perf_counter()
        begun = self._running.begin_if(wanted)
        if begun and self._count is not None:
            self._waited = self._count(perf_counter() - begin)
        return begun

    def Free(self) -> None:
        """Free the request and what belongs to it; a run under way is finished before."""
        if not self._running.channel.broken:
            with self.lock:
                self.begin_if_started()
        self._progress.unwatch(self)
        self._running.close()
        super().Free()

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished; at once where it is not started."""
        self._begin_if_necessary()
        return super().Wait(status)

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished, or not started."""
        self._begin_if_necessary()
        return super().Test(status)

    def _begin_if_necessary(self) -> None:
        self._running.channel.check()
        with self.lock:
            self.begin_if_started()
