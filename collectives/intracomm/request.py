"""What the non-blocking and the persistent forms return.

The handle that MPI sees is a receive of nothing from this very process, which is sent when the
collective is finished. So every function of the library that takes requests works on it, alone or
in a list with others: Waitall, Testany, Startall.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI

from collectives.intracomm.alone import Alone
from collectives.intracomm.progress import Progress
from collectives.intracomm.work import Work
from collectives.plan import Plan

if TYPE_CHECKING:
    _Request = MPI.Request
else:
    # A class must be made by the `__new__` of the very class of MPI that it extends.
    _Request = object


NOTHING = [None, 0, MPI.BYTE]


class Running:
    """A run of a plan, with the copies around it, that ends by completing a handle.

    Args:
        plan: bound to the job of ``work``.
        work: what to do.
        complete: called when it is finished.

    Attributes:
        under_way: it has begun and is not finished.
    """

    def __init__(self, plan: Plan, work: Work, complete: Callable[[], None]) -> None:
        self.plan = plan
        self.under_way = False
        self._work = work
        self._complete = complete
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin. Does not block."""
        for copy in self._work.before:
            copy()
        self.plan.start()
        self.under_way = True

    def advance(self) -> bool:
        """Go on without waiting; return whether it is finished."""
        if not self.under_way:
            return True
        try:
            if not self.plan.test():
                return False
            for copy in self._work.after:
                copy()
        except Exception as error:
            self._error = error
        self.under_way = False
        self._complete()
        return True

    def raise_error(self) -> None:
        """Raise what went wrong, if something did; once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __del__(self) -> None:
        # Waited for by the library only, which did not know of it: Python shows it now.
        self.raise_error()


class _Waiting(_Request):
    """What both kinds of requests do."""

    _running: Running
    _progress: Progress

    def __new__(cls, handle: MPI.Request, *args: Any) -> Any:
        """Take the handle over."""
        return super().__new__(cls, handle)

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished."""
        self._progress.wait(self._running)
        super().Wait(status)
        self._running.raise_error()
        return True

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished."""
        with self._progress.lock:
            self._running.advance()
        done = super().Test(status)
        self._running.raise_error()
        return done

    def Get_status(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished. The request stays."""
        with self._progress.lock:
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

    def __init__(self, handle: MPI.Request, running: Running, progress: Progress) -> None:
        self._running, self._progress = running, progress


class Persistent(_Waiting, MPI.Prequest):
    """A collective that may be started again and again."""

    def __init__(self, handle: MPI.Prequest, running: Running, progress: Progress) -> None:
        self._running, self._progress = running, progress
        progress.watch(self)

    def Start(self) -> None:
        """Begin. Does not block."""
        with self._progress.lock:
            super().Start()
            self._begin()

    def look(self) -> bool:
        """Return whether the library's Startall has started it just now, and begin then."""
        if self._running.under_way or not self or MPI.Prequest.Get_status(self):
            return False
        self._begin()
        return True

    def Free(self) -> None:
        """Free the request and what belongs to it."""
        self._progress.unwatch(self)
        self._running.plan.close()
        super().Free()

    def _begin(self) -> None:
        self._running.begin()
        self._progress.add(self._running)

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished; at once where it is not started."""
        with self._progress.lock:
            self.look()
        return super().Wait(status)

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Let the collective go on; return whether it is finished, or not started."""
        with self._progress.lock:
            self.look()
        return super().Test(status)


def completer(alone: Alone, tag: int) -> Callable[[], None]:
    """Return the function that completes a handle whose receive has this tag."""
    # Synchronous: when it returns, the receive has got it, and the library sees it completed.
    return lambda: alone.comm.Ssend(NOTHING, 0, tag)
