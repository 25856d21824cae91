"""Hierarchical algorithms through the first ranks of the groups, which alone talk to other groups.

A group is ``node`` consecutive ranks, as on the nodes of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.choice import NAME, choice, node_size
from collectives.algorithms.leaders import Phases
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
from collectives.registry import REGISTRY, algorithm
from collectives.step import Round


def _enter(
    collective: Collective,
    before: Collective | None,
    across: Collective,
    after: Collective | None,
    best: str,
) -> None:
    def phases(inner: str, outer: str) -> Phases:
        first, last = (REGISTRY.get(c, inner) if c else None for c in (before, after))
        return Phases(first, REGISTRY.get(across, outer), last)

    def blocks(size: int, node: int = 4, inner: str = "binomial", outer: str = best) -> int:
        return phases(inner, outer).blocks(size, min(node, size))

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
        return phases(inner, outer).rounds(rank, size, min(node, size))


_enter(BCAST, None, BCAST, BCAST, "binomial")
_enter(REDUCE, REDUCE, REDUCE, None, "binomial")
_enter(SCATTER, None, SCATTER, SCATTER, "binomial")
_enter(GATHER, GATHER, GATHER, None, "binomial")
_enter(REDUCE_SCATTER, REDUCE, REDUCE_SCATTER, SCATTER, "ring")
_enter(ALLGATHER, GATHER, ALLGATHER, BCAST, "ring")
_enter(BARRIER, GATHER, ALLGATHER, BCAST, "bruck")
