"""Shared memory of a single plan: its runs take turns with no other.

Runs that share the memory of a node take turns in the order in which its first rank starts them.
MPI lets ranks start persistent collectives in any order, a different one on each rank. So each of
those has flags and slots of its own.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

import numpy as np

from collectives.window import RESULTS_AT, SLOT_BYTES, SLOTS, Node, Turn


class Lane(Node):
    """A node of one plan. Collective, as a window is.

    Args:
        node: whose ranks and windows it has.
        tag: names its run among those in flight on the communicator.

    Raises:
        SharedMemoryError: there is no memory for it; on all ranks.
    """

    def __init__(self, node: Node, tag: int) -> None:
        self.comm, self.channel = node.comm, node.channel
        self.rank, self.size, self.spin = node.rank, node.size, node.spin
        self.whole, self.even, self.largest = node.whole, node.even, node.largest
        self._of, self._tag = node, tag
        self._flags = self._allocate(RESULTS_AT + SLOTS * SLOT_BYTES)
        self.segments = np.concatenate([self._flags.addresses, np.zeros(self.size, np.int64)])
        self.sequence = np.zeros(2, np.int64)
        self.waiting: deque[Turn] = deque()
        self.table_at = node.table_at

    def find(self, array: Any) -> tuple[int, int]:
        """Return the number of the window that an array lies in, and its offset there; or -1, 0."""
        return self._of.find(array)

    def number_plan(self) -> int:
        """Return the number of the plan: there is one."""
        return 1

    def add(self, run: Turn) -> None:
        """Begin a run."""
        self.waiting.append(run)
        self.channel.in_flight.setdefault(self._tag, self)

    def go_on(self, *, may_wait: bool) -> bool:
        """Let the run go on; return whether it is finished."""
        if self.waiting and self.waiting[0].advance(may_wait=may_wait):
            self.waiting.popleft()
            self.channel.in_flight.pop(self._tag, None)
        return not self.waiting

    def steps(self) -> int:
        """Return how many steps this rank has taken, in all runs."""
        return ctypes.c_int64.from_address(int(self.segments[self.rank])).value

    def close(self) -> None:
        """Give the memory back."""
        self._flags.free()
