"""A collective in three phases: in groups, across the first ranks of the groups, in groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from collectives.algorithms.groups import (
    Cut,
    across_groups,
    evenly,
    group_lengths,
    in_groups,
)
from collectives.collective import (
    ALLGATHER,
    BARRIER,
    BCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    Collective,
)
from collectives.registry import REGISTRY, Algorithm
from collectives.step import Round

DEALT = (REDUCE_SCATTER, ALLGATHER, GATHER, SCATTER)
"""Collectives in which each rank has a part of its own; in others all work on the whole vector."""

PHASES: dict[str, tuple[Collective | None, Collective, Collective | None]] = {
    BCAST.name: (None, BCAST, BCAST),
    REDUCE.name: (REDUCE, REDUCE, None),
    SCATTER.name: (None, SCATTER, SCATTER),
    GATHER.name: (GATHER, GATHER, None),
    REDUCE_SCATTER.name: (REDUCE, REDUCE_SCATTER, SCATTER),
    ALLGATHER.name: (GATHER, ALLGATHER, BCAST),
    BARRIER.name: (GATHER, ALLGATHER, BCAST),
}
"""What a collective is made of: in groups, across their first ranks, in groups."""


@dataclass(frozen=True, slots=True)
class Phases:
    """What runs in each phase.

    Attributes:
        before: in each group, or None.
        across: among the first ranks of the groups.
        after: in each group, or None.
    """

    before: Algorithm | None
    across: Algorithm
    after: Algorithm | None

    def unit(self, size: int, node: int) -> int:
        """Return the least number of blocks that each phase can split as it needs."""
        inside = [a for a in (self.before, self.after) if a is not None]
        uses = [(a, n) for a in inside for n in group_lengths(size, node)]
        uses.append((self.across, -(-size // node)))
        return lcm(*(a.blocks(n) // (n if a.collective in DEALT else 1) for a, n in uses))

    def blocks(self, size: int, node: int) -> int:
        """Return the number of blocks: as many for each rank where a phase deals out parts."""
        dealt = any(
            a.collective in DEALT for a in (self.before, self.across, self.after) if a is not None
        )
        return self.unit(size, node) * (size if dealt else 1)

    def rounds(self, rank: Any, size: int, node: int) -> Iterator[Round]:
        """Yield the rounds of all phases."""
        each, total = self.unit(size, node), self.blocks(size, node)

        def own(first: Any, length: int) -> tuple[Any, Any]:
            return first * each, length * each

        def inside(algorithm: Algorithm | None) -> Iterator[Round]:
            if algorithm is not None:
                dealt = algorithm.collective in DEALT
                blocks = own if dealt else lambda first, length: (0, total)
                yield from in_groups(algorithm, rank, size, node, blocks)

        yield from inside(self.before)
        cut = self._cut(size, node, each, total)
        yield from across_groups(self.across, rank, size, node, cut, rank % node == 0)
        yield from inside(self.after)

    def _cut(self, size: int, node: int, each: int, total: int) -> Cut:
        groups = -(-size // node)
        parts = self.across.blocks(groups)
        if self.across.collective not in DEALT:
            return evenly(0, total, parts)

        def cut(block: Any) -> Any:
            # The last group may own fewer blocks than the others.
            group, part = block // (parts // groups), block % (parts // groups)
            first, end = (np.minimum(g * node, size) * each for g in (group, group + 1))
            return first + (end - first) // (parts // groups) * part

        return cut


def phases_of(collective: Collective, inner: str, outer: str) -> Phases:
    """Return the phases of a collective, with these algorithms inside and across groups.

    Raises:
        ValueError: there is no such algorithm.
    """
    before, across, after = PHASES[collective.name]
    first, last = (REGISTRY.get(c, inner) if c else None for c in (before, after))
    return Phases(first, REGISTRY.get(across, outer), last)
