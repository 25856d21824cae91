"""Runs that take turns on a node, since they share its memory."""

from __future__ import annotations

import time
from abc import abstractmethod

from collectives.channel import Channel
from collectives.plan import Plan
from collectives.traffic import Traffic
from collectives.window import Node


class TurnPlan(Plan):
    """A plan whose runs are carried out one after the other with those of its like on a node.

    Args:
        channel: of the communicator.
        node: of the communicator; its runs take turns.
        traffic: counters to add the seconds of each run to; no message is ever sent.
    """

    def __init__(self, channel: Channel, node: Node, traffic: Traffic | None = None) -> None:
        self._running = False
        self._closed = False
        self._channel = channel
        self._node = node
        self._traffic = traffic
        self._seconds = 0.0
        self.number = node.number_plan()

    @abstractmethod
    def advance(self, *, may_wait: bool) -> bool:
        """Go on with this run, whose turn it is; return whether it is finished."""

    def start(self) -> None:
        """Begin a run. Does not block.

        Raises:
            RuntimeError: the plan is closed or runs already.
        """
        if self._closed:
            raise RuntimeError("start: this plan is closed")
        if self._running:
            raise RuntimeError("start: this plan runs already; wait for it first")
        begin = time.perf_counter()
        self._running = True
        self._node.add(self)
        self._node.progress()
        self._seconds = time.perf_counter() - begin

    def test(self) -> bool:
        """Make progress without blocking; return whether the run is finished.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("test")
        begin = time.perf_counter()
        self._channel.progress()
        self._seconds += time.perf_counter() - begin
        if self in self._node.waiting:
            return False
        self._finish()
        return True

    def wait(self) -> None:
        """Block until the run is finished; all runs in flight on the communicator go on.

        Raises:
            RuntimeError: the plan was not started; or another rank started runs in another order,
                and waits for one that was not started here.
        """
        self._check_started("wait")
        begin = time.perf_counter()
        while self in self._node.waiting:
            if len(self._channel.in_flight) > 1:
                self._channel.progress()
                time.sleep(0)  # where ranks share a core, a peer may need it
            else:
                self._node.go_on(may_wait=True)
        self._seconds += time.perf_counter() - begin
        self._finish()

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""
        self._node.progress()
        return self not in self._node.waiting

    def close(self) -> None:
        """Finish a run in flight; closing twice is harmless."""
        if self._closed:
            return
        if self._running:
            self.wait()
        self._closed = True

    def _check_started(self, what: str) -> None:
        if not self._running:
            raise RuntimeError(f"{what}: this plan was not started")

    def _finish(self) -> None:
        self._running = False
        if self._traffic is not None:
            self._traffic.add(0, 0, self._seconds)
