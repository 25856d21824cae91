"""Several plans as one: each is started when the one before has finished."""

from __future__ import annotations

from collections.abc import Sequence

from mpi4py import MPI

from collectives.executors.turns import TurnPlan
from collectives.plan import Plan
from collectives.window import Node


class SequencePlan(TurnPlan):
    """Plans that run one after the other, within and between the nodes of a communicator.

    Args:
        plans: at least one, each with its communicator. They are closed with this one.
        node: of the communicator that they serve.
        algorithm: what to call it.
    """

    executor = "shared"

    def __init__(self, plans: Sequence[tuple[Plan, MPI.Comm]], node: Node, algorithm: str) -> None:
        super().__init__(node.channel, node)
        self._plans = [plan for plan, _ in plans]
        self._ranks = [_ranks(comm, node.channel.comm) for _, comm in plans]
        self._at = 0
        self._started = False
        self.algorithm = algorithm
        self.messages = sum(p.messages for p in self._plans)
        self.bytes_sent = sum(p.bytes_sent for p in self._plans)
        self.scratch_bytes = sum(p.scratch_bytes for p in self._plans)
        self._open()

    def advance(self, *, may_wait: bool) -> bool:
        """Go on with the plan that it has come to; return whether all are finished."""
        while self._at < len(self._plans):
            plan = self._plans[self._at]
            if not self._started:
                plan.start()
                self._started = True
            if may_wait:
                plan.wait()
            elif not plan.test():
                return False
            self._at += 1
            self._started = False
        self._at = 0
        return True

    def waiting_for(self) -> list[int]:
        """Return the ranks that the plan waits for which it has come to."""
        if not (self._running and self._started):
            return []
        ranks = self._ranks[self._at]
        return sorted(ranks[r] for r in self._plans[self._at].waiting_for())

    def _release(self) -> None:
        for plan in self._plans:
            plan.close()


def _ranks(comm: MPI.Comm, of: MPI.Comm) -> list[int]:
    """Return what the ranks of a communicator are called in another."""
    inner, outer = comm.Get_group(), of.Get_group()
    found = inner.Translate_ranks(None, outer)
    inner.Free()
    outer.Free()
    return [int(r) for r in found]
