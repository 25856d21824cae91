"""What all plans have in common that live on the channel of a communicator."""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter

from mpi4py import MPI

from collectives.channel import BROKEN, Channel, harmless
from collectives.plan import Plan
from collectives.traffic import Traffic


class BoundPlan(Plan):
    """A plan that may be idle, under way or closed, and ends with its communicator.

    One that is not whole yet counts as closed, so that nothing needs to be undone where its making
    fails: `_open` is the last thing that ``__init__`` does. What is under way when the communicator
    is freed may still be finished, as in MPI.

    An exception that comes out of the middle of a run, such as the KeyboardInterrupt of Ctrl-C,
    breaks the channel: from then on all that is asked of plans on it raises, closing them frees
    nothing, and the arrays of those that were under way are kept.
    """

    _closed = True
    _running = False
    _freed = False
    _seconds = 0.0
    _traffic: Traffic | None = None
    _channel: Channel

    def _open(self) -> None:
        """Begin to live."""
        # In the object itself, where Python finds what is asked for in each run at once.
        self._closed = self._running = False
        self._channel.plans.add(self)

    def start(self) -> None:
        """Begin a run. Does not block.

        Raises:
            RuntimeError: the plan is closed or runs already, or its communicator was freed, or can
                no longer be used.
        """
        self._check_idle()
        begin = perf_counter()
        try:
            self._running = True
            self._begin()
            self._seconds = perf_counter() - begin
        except BaseException as error:
            self._channel.in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def test(self) -> bool:
        """Make progress without blocking; return whether no run is under way any more.

        All runs in flight on the communicator go on, so that plans may be tested and waited for in
        another order on each rank.

        Raises:
            RuntimeError: the plan is closed, or its communicator was freed, or can no longer be
                used.
        """
        if not self._running:
            self._check_open("test")
            return True
        self._channel.check()
        begin = perf_counter()
        try:
            self._channel.progress(self)
            done = self.progress()
            self._seconds += perf_counter() - begin
            if done:
                self._finish()
        except BaseException as error:
            self._channel.in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise
        return done

    def wait(self) -> None:
        """Block until the run is finished; all runs in flight on the communicator go on.

        Raises:
            RuntimeError: the plan is closed, or its communicator was freed, or can no longer be
                used; or, in shared memory, another rank started runs in another order, and waits
                for one that was not started here.
        """
        if not self._running:
            self._check_open("wait")
            return
        self._channel.check()
        begin = perf_counter()
        try:
            self._complete()
            self._seconds += perf_counter() - begin
            self._finish()
        except BaseException as error:
            self._channel.in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def run(self) -> None:
        """Start and wait. Raises what they raise."""
        self._check_idle()
        try:
            self.start()
            self.wait()
        except BaseException as error:
            self._channel.in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def close(self) -> None:
        """Free what it has. A run in flight is finished first; closing twice is harmless.

        Where the communicator can no longer be used nothing is freed, and nobody waited for.
        """
        if self._closed:
            return
        if self._channel.broken:
            self._closed = True
            if self._running:
                self._channel.kept.append(self)
            return
        if self._running:
            self.wait()
        if not self._closed:
            self._closed = True
            self._release()

    def disown(self) -> None:
        """Begin no run any more: the communicator is about to be freed."""
        self._freed = True
        if not self._running:
            self.close()

    @abstractmethod
    def _begin(self) -> None:
        """Begin a run."""

    @abstractmethod
    def _complete(self) -> None:
        """Go on until the run is finished."""

    @abstractmethod
    def _release(self) -> None:
        """Free what it has; it is idle."""

    def _stop(self) -> None:
        """Be idle: the run is over, or cannot go on."""
        self._running = False
        if self._freed:
            self.close()

    def _finish(self) -> None:
        self._stop()
        if self._traffic is not None:
            self._traffic.add(self.messages, self.bytes_sent, self._seconds)

    def _check_idle(self, what: str = "start") -> None:
        self._check_open(what)
        if self._running:
            raise harmless(RuntimeError(f"{what}: this plan runs already; wait for it first"))

    def _check_open(self, what: str) -> None:
        self._channel.check()
        if self._freed:
            name = ", ".join(part for part in (self.algorithm, self.executor) if part)
            text = f"{what}: the communicator of this plan ({name}) was freed"
            raise harmless(RuntimeError(text))
        if self._closed:
            raise harmless(RuntimeError(f"{what}: this plan is closed"))

    def __del__(self) -> None:
        # A run in flight is kept alive by the channel, so what comes here has none.
        if not self._closed and MPI is not None and not MPI.Is_finalized():
            self.close()
