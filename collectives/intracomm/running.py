"""A run of a plan, with the copies around it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from collectives.channel import BROKEN, Channel
from collectives.intracomm.lane import Lane
from collectives.intracomm.progress import Progress
from collectives.intracomm.work import Work
from collectives.plan import Plan

LOOKS = 20
"""Looks at a run in shared memory that does not get on, before it is left alone for a while."""


class Running:
    """A run of a plan that is finished by whoever looks after it.

    Blocking calls on the same communicator let it go on, too, while another thread may do so. So
    what they find in flight is this object, which admits one thread at a time.

    Args:
        plan: bound to the job of ``work``, with the tag ``tag``.
        work: what to do.
        tag: of the messages of the plan.
        channel: of the communicator.
        progress: looks after it.
        complete: called when it is finished.
        release: called when the plan is closed.
        lane: the memory of the plan, where it has its own.
        once: it is not begun again, so that the plan is closed when it is finished.

    Attributes:
        tag: as above.
        lock: held by whoever lets it go on.
        under_way: it has begun and is not finished.
        channel: as above.
    """

    def __init__(
        self,
        plan: Plan,
        work: Work,
        tag: int,
        channel: Channel,
        progress: Progress,
        complete: Callable[[], None],
        release: Callable[[], None],
        lane: Lane | None = None,
        *,
        once: bool,
    ) -> None:
        self.lock = threading.Lock()
        self.under_way = False
        self._plan: Plan | None = plan
        self._work: Work | None = work
        self.tag = tag
        self.channel = channel
        self._progress = progress
        self._complete, self._release, self._lane = complete, release, lane
        self._once = once
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin. Does not block."""
        self.begin_if(lambda: True)

    def begin_if(self, wanted: Callable[[], bool]) -> bool:
        """Begin, unless it is under way or ``wanted`` says no; return whether it has begun."""
        with self.lock:
            if self.under_way or self.channel.broken or not wanted():
                return False
            assert self._plan is not None
            assert self._work is not None
            for copy in self._work.before:
                copy()
            try:
                # The plan leaves this in its place, so that nobody finds the plan itself.
                self.channel.in_flight[self.tag] = self
                self._plan.start()
                self.under_way = True
            except BaseException as error:
                self.break_off(error)
                if not self.channel.broken:
                    self.channel.in_flight.pop(self.tag, None)
                raise
        self._progress.add(self)
        return True

    def fail(self, error: Exception) -> None:
        """End a run that has been started but could not begin; whoever waits for it is told."""
        self._error = error
        self._complete()

    def progress(self) -> bool:
        """Go on without waiting, unless another thread does; return whether the plan is through."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            if self.channel.broken:
                return False
            return self._plan is None or self._error is not None or self._plan.progress()
        except BaseException as error:
            self.break_off(error)
            if not isinstance(error, Exception):
                raise
            self._error = error  # not of the call that lets this one go on
            return True
        finally:
            self.lock.release()

    def wait_alone(self) -> bool:
        """Wait until the plan is through, if nothing else is in flight; return whether it is.

        The lock is held. What begins meanwhile is looked after by the thread of `Progress`.
        """
        if self._lane is None or not self.under_way or len(self.channel.in_flight) > 1:
            return False
        try:
            self._lane.go_on(may_wait=True)
        except BaseException as error:
            self.break_off(error)
            if not isinstance(error, Exception):
                raise
            self._error = error
        return True

    def help_others(self) -> None:
        """Let all else that is in flight on the communicator go on. Not for other threads."""
        self.channel.progress(self)

    def linger(self) -> bool:
        """Go on as long as the other ranks do; return whether it got on. The lock is held."""
        if self._lane is None or not self.under_way:  # then the memory may be gone
            return self.advance()
        first = last = self._lane.steps()
        looks = 0
        while looks < LOOKS and not self.advance():
            now = self._lane.steps()
            looks = looks + 1 if now == last else 0
            last = now
        return last != first

    def advance(self) -> bool:
        """Go on without waiting; return whether it is finished. The lock is held."""
        if not self.under_way:
            return True
        if self.channel.broken:
            return False
        assert self._plan is not None
        assert self._work is not None
        try:
            if self._error is None:
                if not self._plan.progress():
                    return False
                self._plan.wait()  # it is through; this lets no other run go on
                for copy in self._work.after:
                    copy()
        except BaseException as error:
            self.break_off(error)
            if not isinstance(error, Exception):
                raise
            self._error = error
        self.under_way = False
        self._progress.remove(self)
        if self._once:
            self._close()
        self._complete()
        return True

    def break_off(self, error: BaseException) -> None:
        """Break the channel, with what has come out of the middle of this (see `Channel`)."""
        run = self._plan or self
        self.channel.in_flight.setdefault(BROKEN, run)
        self.channel.break_off(run, error)

    def close(self) -> None:
        """Close the plan, now or when it is finished: it will not be begun again."""
        if self.channel.broken:
            self.channel.kept.append(self)
            return
        with self.lock:
            self._once = True
            if not self.under_way:
                self._close()

    def _close(self) -> None:
        if self._plan is not None and self._error is None:
            self._plan.close()
            self._release()
        self._plan = self._work = None

    def raise_error(self) -> None:
        """Raise what went wrong, if something did; once."""
        if not self.under_way and self._error is not None:
            error, self._error = self._error, None
            raise error

    def __del__(self) -> None:
        # Waited for by the library only, which did not know of it: Python shows it now.
        self.raise_error()
