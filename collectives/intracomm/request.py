"""What the non-blocking and the persistent forms return.

The handle that MPI sees is a receive of nothing from this very process, which is sent when the
collective is finished. So every function of the library that takes requests works on it, alone or
in a list with others: Waitall, Testany, Startall.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI

from collectives.intracomm.alone import Alone
from collectives.intracomm.progress import Progress, wait_for
from collectives.intracomm.report import Shape, Tally, Way
from collectives.intracomm.running import Running

if TYPE_CHECKING:
    _Request = MPI.Request
else:
    # An object must be made by the `__new__` of the very class of MPI that it extends.
    _Request = object

NOTHING = [None, 0, MPI.BYTE]


class _Waiting(_Request):
    """What both kinds of requests do."""

    _running: Running
    _tally: Tally | None

    def __new__(cls, handle: MPI.Request, *args: Any) -> Any:
        """Take the handle over."""
        return super().__new__(cls, handle)

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished."""
        begin = perf_counter()
        wait_for(self._running)
        super().Wait(status)
        if self._tally is not None:
            self._tally.seconds += perf_counter() - begin
        self._running.raise_error()
        return True

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished."""
        with self._running.lock:
            self._running.advance()
        done = super().Test(status)
        self._running.raise_error()
        return done

    def Get_status(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished. The request stays."""
        with self._running.lock:
            self._running.advance()
        return super().Get_status(status)

    def wait(self, status: MPI.Status | None = None) -> Any:
        """Wait until the collective is finished."""
        self.Wait(status)

    def test(self, status: MPI.Status | None = None) -> tuple[bool, Any | None]:
        """Let the collective go on; return whether it is finished, and None."""
        return self.Test(status), None

    def get_status(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished. The request stays."""
        return self.Get_status(status)


class NonBlocking(_Waiting, MPI.Request):
    """A collective under way."""

    def __init__(self, handle: MPI.Request, running: Running, tally: Tally | None = None) -> None:
        self._running = running
        self._tally = tally


class Persistent(_Waiting, MPI.Prequest):
    """A collective that may be started again and again.

    Attributes:
        lock: of its communicator.
    """

    def __init__(
        self,
        handle: MPI.Prequest,
        running: Running,
        progress: Progress,
        tally: Tally | None,
        way: Way,
        shape: Shape,
    ) -> None:
        self._running, self._progress = running, progress
        self._tally, self._way, self._shape = tally, way, shape
        self.lock: threading.Lock = running.lock
        progress.watch(self)

    def Start(self) -> None:
        """Begin. Does not block."""
        with self.lock:
            super().Start()
            self._begin()

    def advance(self) -> bool:
        """Begin, if the library's Startall has started it just now. The lock is held."""
        if self._running.under_way or not self or MPI.Prequest.Get_status(self):
            return True
        self._begin()
        return False

    def _begin(self) -> None:
        begin = perf_counter()
        self._running.begin()
        if self._tally is not None:  # a call is a start
            self._tally.add(perf_counter() - begin, self._way, self._shape)

    def Free(self) -> None:
        """Free the request and what belongs to it."""
        self._progress.unwatch(self)
        with self.lock:
            self._running.close()
        super().Free()

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished; at once where it is not started."""
        with self.lock:
            self.advance()
        return super().Wait(status)

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished, or not started."""
        with self.lock:
            self.advance()
        return super().Test(status)


def completer(alone: Alone, tag: int) -> Callable[[], None]:
    """Return the function that completes a handle whose receive has this tag."""
    # Synchronous: when it returns, the receive has got it, and the library sees it completed.
    return lambda: alone.comm.Ssend(NOTHING, 0, tag)
