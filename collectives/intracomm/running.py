"""A run of a plan, with the copies around it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from collectives.intracomm.progress import Progress
from collectives.intracomm.work import Work
from collectives.plan import Plan


class Running:
    """A run of a plan that is finished by whoever looks after it.

    Args:
        plan: bound to the job of ``work``.
        work: what to do.
        progress: looks after it.
        lock: that of its communicator.
        complete: called when it is finished.
        once: it is not begun again, so that what it holds is released when it is finished.

    Attributes:
        lock: as above.
        under_way: it has begun and is not finished.
    """

    def __init__(
        self,
        plan: Plan,
        work: Work,
        progress: Progress,
        lock: threading.Lock,
        complete: Callable[[], None],
        *,
        once: bool,
    ) -> None:
        self.lock = lock
        self.under_way = False
        self._plan: Plan | None = plan
        self._work: Work | None = work
        self._progress = progress
        self._complete = complete
        self._once = once
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin. Does not block. The lock is held."""
        assert self._plan is not None
        assert self._work is not None
        for copy in self._work.before:
            copy()
        self._plan.start()
        self.under_way = True
        self._progress.add(self)

    def advance(self) -> bool:
        """Go on without waiting; return whether it is finished. The lock is held."""
        if not self.under_way:
            return True
        assert self._plan is not None
        assert self._work is not None
        try:
            if not self._plan.test():
                return False
            for copy in self._work.after:
                copy()
        except Exception as error:
            self._error = error
        self.under_way = False
        self._progress.remove(self)
        if self._once:
            if self._error is None:
                self._plan.close()
            self._plan = self._work = None
        self._complete()
        return True

    def close(self) -> None:
        """Close the plan: it will not be begun again."""
        if self._plan is not None:
            self._plan.close()
        self._plan = self._work = None

    def raise_error(self) -> None:
        """Raise what went wrong, if something did; once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __del__(self) -> None:
        # Waited for by the library only, which did not know of it: Python shows it now.
        self.raise_error()
