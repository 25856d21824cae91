"""Run a plan in a thread of its own, while Python computes.

A thread of Python that polls takes the interpreter's lock from the computation, over and over. This
one runs compiled code, which does not hold the lock, and sleeps for a moment whenever no message
has come: so it costs next to nothing while the network works.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from time import perf_counter

from collectives.channel import Channel
from collectives.executors.native import NativePlan
from collectives.plan import Plan
from collectives.traffic import Traffic

PAUSE = 50
"""Microseconds of sleep. Shorter ones cost time on the core; longer ones delay the next round."""


class BackgroundPlan(Plan):
    """A native plan that makes progress by itself between `start` and `wait`.

    Runs of one communicator are carried out one after the other, in the order in which they were
    started, which is the same on all ranks.

    Args:
        plan: what to run; it is closed with this one.
        channel: of its communicator.
        traffic: counters to add to.
    """

    executor = "native"

    def __init__(self, plan: NativePlan, channel: Channel, traffic: Traffic | None = None) -> None:
        self._plan = plan
        self._traffic = traffic
        self._worker = _worker_of(channel)
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._running = self._closed = False
        self._seconds = 0.0
        self.algorithm = plan.algorithm
        self.messages, self.bytes_sent = plan.messages, plan.bytes_sent
        self.scratch_bytes = plan.scratch_bytes

    def start(self) -> None:
        """Hand a run over to the thread.

        Raises:
            RuntimeError: the plan is closed or runs already.
        """
        if self._closed:
            raise RuntimeError("start: this plan is closed")
        if self._running:
            raise RuntimeError("start: this plan runs already; wait for it first")
        self._running = True
        self._done.clear()
        self._worker.put(self)

    def work(self) -> None:
        """Run it; called by the thread."""
        begin = perf_counter()
        try:
            self._plan.run_backing_off(PAUSE)
        except BaseException as error:
            self._error = error
        self._seconds = perf_counter() - begin
        self._done.set()

    def test(self) -> bool:
        """Return whether the run is finished.

        Raises:
            RuntimeError: the plan was not started.
            MPI.Exception: MPI failed.
        """
        self._check_started("test")
        if not self._done.is_set():
            return False
        self._finish()
        return True

    def wait(self) -> None:
        """Sleep until the run is finished.

        Raises:
            RuntimeError: the plan was not started.
            MPI.Exception: MPI failed.
        """
        self._check_started("wait")
        self._done.wait()
        self._finish()

    def progress(self) -> bool:
        """Return whether the run is finished: it needs no help."""
        return not self._running or self._done.is_set()

    def waiting_for(self) -> list[int]:
        """Return the ranks of the messages of the round that it waits in."""
        return self._plan.waiting_for()

    def close(self) -> None:
        """Close the plan. A run in flight is finished first; closing twice is harmless."""
        if self._closed:
            return
        if self._running:
            self.wait()
        self._plan.close()
        self._closed = True

    def _check_started(self, what: str) -> None:
        if not self._running:
            raise RuntimeError(f"{what}: this plan was not started")

    def _finish(self) -> None:
        self._running = False
        if self._traffic is not None:
            self._traffic.add(self.messages, self.bytes_sent, self._seconds)
        if self._error is not None:
            error, self._error = self._error, None
            raise error


class _Worker:
    """The thread of a communicator, and the runs that wait for it."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[BackgroundPlan | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="collectives", daemon=True)
        self._thread.start()

    def put(self, plan: BackgroundPlan) -> None:
        self._queue.put(plan)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (plan := self._queue.get()) is not None:
            plan.work()
            del plan  # or the thread would keep the last one alive


def _worker_of(channel: Channel) -> _Worker:
    worker = channel.companions.get("worker")
    if worker is None:
        worker = channel.companions["worker"] = _Worker()
    assert isinstance(worker, _Worker)
    return worker
