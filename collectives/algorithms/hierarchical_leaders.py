"""Hierarchical algorithms through the first ranks of the groups, which alone talk to other groups.

A group is ``node`` consecutive ranks, as on the nodes of a cluster; in a rooted collective they are
counted from the root on, so that groups are nodes where the root is the first rank of its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.choice import NAME, choice, node_size
from collectives.algorithms.leaders import PHASES, phases_of
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
from collectives.registry import algorithm
from collectives.step import Round


def _enter(collective: Collective, best: str) -> None:
    before, across, after = PHASES[collective.name]

    def blocks(size: int, node: int = 4, inner: str = "binomial", outer: str = best) -> int:
        return phases_of(collective, inner, outer).blocks(size, min(node, size))

    @algorithm(
        collective,
        blocks=blocks,
        name=NAME,
        paper="Karonis et al. 2000",
        tunables={
            "node": node_size(),
            "inner": choice("binomial", "inside groups", *(c for c in (before, after) if c)),
            "outer": choice(best, "across groups", across),
        },
    )
    def generate(
        rank: Any, size: int, node: int = 4, inner: str = "binomial", outer: str = best
    ) -> Iterator[Round]:
        """Let the first rank of each group speak for it: in groups, across them, in groups."""
        return phases_of(collective, inner, outer).rounds(rank, size, min(node, size))


_enter(BCAST, "binomial")
_enter(REDUCE, "binomial")
_enter(SCATTER, "binomial")
_enter(GATHER, "binomial")
_enter(REDUCE_SCATTER, "ring")
_enter(ALLGATHER, "ring")
_enter(BARRIER, "bruck")
