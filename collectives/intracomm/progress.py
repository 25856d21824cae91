"""Let non-blocking collectives go on, also where nobody waits for them through our objects.

`Request.Wait` and `Test` of our own requests make progress themselves. But a program may also wait
in the library: in ``MPI.Request.Waitall`` over a list, or in a ``Recv`` of what a peer only sends
after its own ``Wait``. MPI promises that the collective goes on meanwhile. So while some are under
way, a thread looks after them from time to time. It sleeps in between, ever longer; one that polls
without sleeping would take the interpreter from the program.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import Protocol

from mpi4py import MPI

LEAST, MOST = 1e-4, 1e-3
"""Seconds between two looks: at first, and at most."""

GROWTH = 1.5

LINGER = 50
"""Looks at nothing before the thread waits to be woken up, which costs more than a look."""


class Unfinished(Protocol):
    """A collective under way."""

    def advance(self) -> bool:
        """Go on without waiting; return whether it is finished. The lock is held."""


class Sleeping(Protocol):
    """A collective that the library may start, behind our back."""

    def look(self) -> bool:
        """Return whether that has happened just now, and begin then. The lock is held."""


class Progress:
    """What is under way in this process, and the thread that looks after it.

    Attributes:
        lock: held by whoever lets something under way go on.
        under_way: what is.
        able: whether MPI allows threads; if not, nothing may be under way without being waited for
            through our objects.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.under_way: list[Unfinished] = []
        self.able = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._sleeping: weakref.WeakValueDictionary[int, Sleeping] = weakref.WeakValueDictionary()
        self._wake = threading.Condition(self.lock)
        self._thread: threading.Thread | None = None
        self._idle = True
        self._fresh = False
        self._stopped = False

    def add(self, new: Unfinished) -> None:
        """Look after this, until it is finished. The lock is held."""
        self.under_way.append(new)
        self._call()

    def watch(self, new: Sleeping) -> None:
        """See from time to time whether this was started, as long as it lives."""
        with self.lock:
            self._sleeping[id(new)] = new
            self._call()

    def unwatch(self, old: Sleeping) -> None:
        """No longer do so."""
        with self.lock:
            self._sleeping.pop(id(old), None)

    def advance(self) -> bool:
        """Let all go on without waiting; return whether something was finished. Lock held."""
        left = [u for u in self.under_way if not u.advance()]
        finished = len(left) < len(self.under_way)
        self.under_way = left
        return finished

    def wait(self, for_this: Unfinished) -> None:
        """Let it go on until it is finished. The lock is not held, and given away in between."""
        while True:
            with self.lock:
                if for_this.advance():
                    return
            time.sleep(0)  # where ranks share a core, a peer may need it

    def stop(self) -> None:
        """End the thread; afterwards our own objects alone make progress."""
        with self.lock:
            self._stopped = True
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def _call(self) -> None:
        self._fresh = True
        if self._thread is None and not self._stopped:
            self._idle = False
            self._thread = threading.Thread(target=self._look, daemon=True, name="collectives")
            self._thread.start()
            _stop_in_time(self)
        elif self._idle:
            self._wake.notify_all()

    def _look(self) -> None:
        pause, nothing = LEAST, 0
        while True:
            with self.lock:
                if self._stopped:
                    return
                started = [s for s in list(self._sleeping.values()) if s.look()]
                nothing = 0 if self.under_way or self._sleeping else nothing + 1
                if nothing > LINGER:
                    self._idle = True
                    self._wake.wait()
                    self._idle = False
                    nothing = 0
                if self.advance() or started or self._fresh:
                    pause = LEAST
                self._fresh = False
            time.sleep(pause)
            pause = min(pause * GROWTH, MOST)


def _stop_in_time(progress: Progress) -> None:
    """Stop the thread before the interpreter ends, and before MPI does."""
    keyval = MPI.Comm.Create_keyval(None, lambda comm, key, value: value.stop())
    MPI.COMM_SELF.Set_attr(keyval, progress)
    atexit.register(progress.stop)
