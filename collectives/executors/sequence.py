"""Several plans as one: each is started when the one before has finished."""

from __future__ import annotations

from collections.abc import Sequence

from collectives.plan import Plan


class SequencePlan(Plan):
    """Plans that run one after the other.

    Args:
        plans: at least one. They are closed with this one.
        executor: what to call it.
    """

    def __init__(self, plans: Sequence[Plan], executor: str) -> None:
        self._plans = list(plans)
        self._at = -1
        self._closed = False
        self.executor = executor
        self.messages = sum(p.messages for p in plans)
        self.bytes_sent = sum(p.bytes_sent for p in plans)
        self.scratch_bytes = sum(p.scratch_bytes for p in plans)

    def start(self) -> None:
        """Start the first one.

        Raises:
            RuntimeError: the plan is closed or runs already.
        """
        if self._closed:
            raise RuntimeError("start: this plan is closed")
        if self._at >= 0:
            raise RuntimeError("start: this plan runs already; wait for it first")
        self._at = 0
        self._plans[0].start()

    def test(self) -> bool:
        """Make progress without blocking; return whether all are finished.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("test")
        while self._plans[self._at].test():
            self._at += 1
            if self._at == len(self._plans):
                self._at = -1
                return True
            self._plans[self._at].start()
        return False

    def wait(self) -> None:
        """Wait for each, and start the next.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("wait")
        self._plans[self._at].wait()
        for plan in self._plans[self._at + 1 :]:
            plan.run()
        self._at = -1

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""
        return self._at < 0 or (
            self._plans[self._at].progress() and self._at == len(self._plans) - 1
        )

    def waiting_for(self) -> list[int]:
        """Return the ranks that the current one waits for, as its communicator numbers them."""
        return [] if self._at < 0 else self._plans[self._at].waiting_for()

    def close(self) -> None:
        """Close all. A run in flight is finished first; closing twice is harmless."""
        if self._closed:
            return
        if self._at >= 0:
            self.wait()
        for plan in self._plans:
            plan.close()
        self._closed = True

    def _check_started(self, what: str) -> None:
        if self._at < 0:
            raise RuntimeError(f"{what}: this plan was not started")
