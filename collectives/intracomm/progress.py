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
from typing import Any, Protocol

from mpi4py import MPI

from collectives.channel import give_way

LEAST, MOST = 1e-4, 1e-3
"""Seconds between two looks: at first, and at most."""

GROWTH = 1.5

LINGER = 50
"""Looks at nothing before the thread ends: to start one costs more than a look."""


class Unfinished(Protocol):
    """A collective under way, or one that the library may start behind our back.

    Attributes:
        lock: held by whoever lets it go on.
    """

    lock: threading.Lock

    def advance(self) -> bool:
        """Go on without waiting; return whether it is finished. The lock is held."""

    def linger(self) -> bool:
        """Go on as long as the other ranks do; return whether it got on. The lock is held."""

    def break_off(self, error: BaseException) -> None:
        """Note that an exception came out of the middle of this; perhaps the lock is held."""


class Awaited(Unfinished, Protocol):
    """A collective that can be waited for."""

    def wait_alone(self) -> bool:
        """Wait until it is through, if that holds up nothing else; return whether it is."""

    def help_others(self) -> None:
        """Let all else go on that was started on its communicator."""


class Progress:
    """What is under way in this process, and the thread that looks after it.

    Attributes:
        able: whether MPI allows threads; if not, nothing may be under way without being waited for
            through our objects.
    """

    def __init__(self) -> None:
        self.able = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._under_way: dict[int, Unfinished] = {}
        self._sleeping: weakref.WeakValueDictionary[int, Unfinished] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._fresh = self._stopped = False

    def add(self, new: Unfinished) -> None:
        """Look after this, until it is removed."""
        with self._lock:
            self._under_way[id(new)] = new
            self._call()

    def remove(self, old: Unfinished) -> None:
        """No longer look after this."""
        with self._lock:
            self._under_way.pop(id(old), None)

    def watch(self, new: Unfinished) -> None:
        """Look from time to time whether this was started, as long as it lives."""
        with self._lock:
            self._sleeping[id(new)] = new
            self._call()

    def unwatch(self, old: Unfinished) -> None:
        """No longer do so."""
        with self._lock:
            self._sleeping.pop(id(old), None)

    def go_on(self) -> None:
        """Let all that is under way go on without waiting."""
        for this in list(self._under_way.values()):
            _advance(this)

    def wait_for(self, this: Awaited) -> None:
        """Let all go on until this is finished; no lock is held in between."""
        while True:
            # Ranks may wait for them in another order.
            several = len(self._under_way) > 1
            with this.lock:
                if not several:
                    this.wait_alone()
                if this.advance():
                    return
            if several:
                self.go_on()
            this.help_others()
            give_way()  # where ranks share a core, a peer may need it

    def stop(self) -> None:
        """End the thread; afterwards our own objects alone make progress."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _call(self) -> None:
        self._fresh = True
        if self._thread is None and not self._stopped:
            _stop_in_time(self)
            self._thread = threading.Thread(target=self._look, daemon=True, name="collectives")
            self._thread.start()

    def _look(self) -> None:
        pause, nothing = LEAST, 0
        while True:
            with self._lock:
                idle = nothing > LINGER and not (self._under_way or self._sleeping)
                if self._stopped or idle:
                    self._thread = None
                    return
                pause = LEAST if self._fresh else min(pause * GROWTH, MOST)
                self._fresh = False
                found = [*self._under_way.values(), *self._sleeping.values()]
            nothing = 0 if found else nothing + 1
            while found:  # so that none of them is kept alive while this thread sleeps
                self._fresh |= _linger(found.pop())
            time.sleep(pause)


def _advance(this: Unfinished) -> None:
    try:
        if this.lock.acquire(blocking=False):  # whoever has it makes progress
            try:
                this.advance()
            finally:
                this.lock.release()
    except BaseException as error:
        this.break_off(error)
        raise


def _linger(this: Unfinished) -> bool:
    if this.lock.acquire(blocking=False):
        try:
            return this.linger()
        finally:
            this.lock.release()
    return False


_living: weakref.WeakSet[Progress] = weakref.WeakSet()
_keyvals: list[int] = []
_keyvals_lock = threading.Lock()


def _stop_in_time(progress: Progress) -> None:
    """Stop the thread before the interpreter ends, and before MPI does."""
    with _keyvals_lock:
        _living.add(progress)
        if not _keyvals:
            _keyvals.append(MPI.Comm.Create_keyval(None, _stop_all))
            MPI.COMM_SELF.Set_attr(_keyvals[0], "")
            atexit.register(_stop_all)


def _stop_all(*_: Any) -> None:
    for progress in list(_living):
        progress.stop()
