"""Several plans as one, with work of this rank before and after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from collectives.bound import BoundPlan
from collectives.channel import is_harmless, open_channel
from collectives.plan import Plan


@dataclass(frozen=True, slots=True)
class Part:
    """A plan, and what this rank does around each run of it.

    Attributes:
        plan: is closed with the plan that it is part of.
        before: is called before it is started, if given.
        after: is called when it is finished, if given.
    """

    plan: Plan
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


class CombinedPlan(BoundPlan):
    """Plans that are finished one after the other.

    Making one is collective, as for any plan. Where the parts overlap, all are started at once:
    the work before one is done while those before it are under way, and the work after one while
    those after it are. Otherwise each is started when the one before it is finished.

    Args:
        parts: in their order, the same on all ranks.
        comm: the communicator of all parts.
        overlap: no part needs the result of another.
    """

    def __init__(self, parts: Sequence[Part], comm: MPI.Comm, *, overlap: bool) -> None:
        self._parts = list(parts)
        self._ahead = len(self._parts) if overlap else 1
        self._channel = open_channel(comm)
        self._tag = self._channel.take_tag()  # names it among the runs in flight
        self._started = self._finished = 0
        plans = [part.plan for part in self._parts]
        for plan in plans:  # they end with this one: it starts some after the communicator is freed
            if isinstance(plan, BoundPlan):
                self._channel.plans.discard(plan)
        self.messages = sum(plan.messages for plan in plans)
        self.bytes_sent = sum(plan.bytes_sent for plan in plans)
        self.scratch_bytes = sum(plan.scratch_bytes for plan in plans)
        self.algorithm = " + ".join(dict.fromkeys(plan.algorithm for plan in plans))
        self.executor = " + ".join(dict.fromkeys(plan.executor for plan in plans))
        self._open()

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""
        while self._finished < len(self._parts):
            if not self._parts[self._finished].plan.progress():
                return False
            self._finish_part()
        self._channel.in_flight.pop(self._tag, None)
        return True

    def waiting_for(self) -> list[int]:
        """Return the ranks that the part is waiting for which is the next to be finished."""
        if not self._running or self._finished == len(self._parts):
            return []
        return self._parts[self._finished].plan.waiting_for()

    def _begin(self) -> None:
        self._started = self._finished = 0
        self._channel.in_flight[self._tag] = self
        self._start_parts()

    def _complete(self) -> None:
        # While it waits for a part, nobody else may go on with it.
        self._channel.in_flight.pop(self._tag, None)
        while self._finished < len(self._parts):
            self._finish_part()

    def _release(self) -> None:
        for part in self._parts:
            part.plan.close()
        self._channel.give_back(self._tag)

    def _start_parts(self) -> None:
        while self._started < min(self._finished + self._ahead, len(self._parts)):
            part = self._parts[self._started]
            self._started += 1
            self._attempt(part.before)
            self._attempt(part.plan.start)

    def _finish_part(self) -> None:
        part = self._parts[self._finished]
        self._attempt(part.plan.wait)
        self._attempt(part.after)
        self._finished += 1
        self._start_parts()

    def _attempt(self, step: Callable[[], None] | None) -> None:
        try:
            if step is not None:
                step()
        except Exception as error:
            if is_harmless(error):  # this run cannot go on, also not to be closed
                self._channel.in_flight.pop(self._tag, None)
                self._stop()
            raise
