"""Runs that take turns on a node, since they share its memory."""

from __future__ import annotations

from abc import abstractmethod

from collectives.bound import BoundPlan
from collectives.channel import Channel, give_way
from collectives.traffic import Traffic
from collectives.window import Node


class TurnPlan(BoundPlan):
    """A plan whose runs are carried out one after the other with those of its like on a node.

    Args:
        channel: of the communicator.
        node: of the communicator; its runs take turns.
        traffic: counters to add the seconds of each run to; no message is ever sent.
    """

    def __init__(self, channel: Channel, node: Node, traffic: Traffic | None = None) -> None:
        self._channel = channel
        self._node = node
        self._traffic = traffic
        self.number = node.number_plan()

    @abstractmethod
    def advance(self, *, may_wait: bool) -> bool:
        """Go on with this run, whose turn it is; return whether it is finished."""

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""
        self._node.progress()
        return self not in self._node.waiting

    def _begin(self) -> None:
        self._node.add(self)
        self._node.progress()

    def _complete(self) -> None:
        while self in self._node.waiting:
            if len(self._channel.in_flight) > 1:
                self._channel.progress()
                give_way()
            else:
                self._node.go_on(may_wait=True)

    def _release(self) -> None:
        """Nothing: the memory is the node's."""
