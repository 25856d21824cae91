"""Where the ranks are: on nodes that share a link, with other costs inside than between.

The ranks of a node are consecutive, as most launchers place them, or dealt out in turns. A message
inside a node costs what ``within`` says; one between nodes what ``between`` says, and on top of it
all ranks of a node share the node's link to the network, one in each direction: messages that want
it at the same time wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.model import Model

Vector: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Topology:
    """Nodes of equally many ranks; the last one may have fewer.

    Attributes:
        ranks_per_node: how many.
        within: costs of a message inside a node, and of sums everywhere.
        between: costs of a message between nodes; its byte_time and gap are those of the link of
            the node, its reduce_time has no meaning.
        cyclic: deal ranks out to the nodes in turns (``rank % nodes``), not in consecutive groups.

    Raises:
        ValueError: ``ranks_per_node`` is below 1.
    """

    ranks_per_node: int
    within: Model = field(default_factory=Model)
    between: Model = field(default_factory=Model)
    cyclic: bool = False

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1:
            raise ValueError(f"ranks_per_node={self.ranks_per_node}: needs at least 1")

    def nodes(self, size: int) -> int:
        """Return the number of nodes that ``size`` ranks take."""
        return -(-size // self.ranks_per_node)

    def node_of(self, size: int) -> Vector:
        """Return the node of each rank, int64 (size,)."""
        rank = np.arange(size)
        return rank % self.nodes(size) if self.cyclic else rank // self.ranks_per_node


class SharedLinks:
    """One link for each node. A message takes it as soon as it is ready and the link is free.

    Args:
        nodes: how many there are.
    """

    def __init__(self, nodes: int) -> None:
        self._free = np.full(nodes, -np.inf)

    def serve(self, node: Vector, ready: Vector, service: Any) -> Vector:
        """Let messages through, those of a node in the order in which they are ready.

        Args:
            node: whose link each message takes, int (messages,).
            ready: from when on it may, in seconds, float64 (messages,).
            service: for how many seconds it does; a number or an array (messages,).

        Returns:
            When each message takes the link, float64 (messages,).
        """
        if node.size == 0:
            return ready
        order = np.lexsort((ready, node))
        whose = node[order]
        first = np.flatnonzero(np.diff(whose, prepend=-1))
        counts = np.diff(np.append(first, node.size))
        row = np.repeat(np.arange(first.size), counts)
        column = np.arange(node.size) - np.repeat(first, counts)
        # A row for each node: the start of a message is a running maximum, once the service times
        # of those before it are taken off.
        wants = np.full((first.size, counts.max()), np.inf)
        takes = np.zeros(wants.shape)
        wants[row, column] = ready[order]
        takes[row, column] = np.broadcast_to(service, node.shape)[order]
        before = np.cumsum(takes, axis=1) - takes
        nodes = whose[first]
        earliest = np.maximum(wants - before, self._free[nodes][:, None])
        start = np.maximum.accumulate(earliest, axis=1) + before
        last = np.arange(first.size), counts - 1
        self._free[nodes] = start[last] + takes[last]
        starts = np.empty(node.size)
        starts[order] = start[row, column]
        return starts
