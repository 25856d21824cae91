"""Hierarchical allreduce: one algorithm in groups of ranks, another one across the groups.

A group is ``node`` consecutive ranks, as on the nodes of a cluster, so that most bytes stay inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.choice import choice, either, node_size
from collectives.algorithms.groups import across_groups, evenly, in_groups
from collectives.algorithms.leaders import Phases
from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    BCAST,
    REDUCE,
    REDUCE_SCATTER,
    Collective,
)
from collectives.registry import REGISTRY, Algorithm, algorithm
from collectives.step import Round

COUNTERPARTS = {
    "recursive_halving": "recursive_doubling",
    "recursive_doubling": "recursive_halving",
    "bruck": "recursive_halving",
}
"""What does the other half of an allreduce in groups, with as many rounds; else the ring does."""


def allreduce_phases(size: int, node: int, inner: str, outer: str) -> Phases:
    """Return what runs in groups, across them, and in groups again.

    Raises:
        ValueError: there is no such algorithm.
    """
    across = REGISTRY.get(ALLREDUCE, outer)
    if size % node == 0:
        return Phases(_half(REDUCE_SCATTER, inner), across, _half(ALLGATHER, inner))
    both = {*REGISTRY.names(REDUCE)} & {*REGISTRY.names(BCAST)}
    name = inner if inner in both else "binomial"
    return Phases(REGISTRY.get(REDUCE, name), across, REGISTRY.get(BCAST, name))


def _half(collective: Collective, inner: str) -> Algorithm:
    """Return the algorithm for one half: that of this name, or what goes with it."""
    known = inner in REGISTRY.names(collective)
    return REGISTRY.get(collective, inner if known else COUNTERPARTS.get(inner, "ring"))


def _blocks(size: int, node: int = 4, inner: str = "ring", outer: str = "rabenseifner") -> int:
    node = min(node, size)
    parts = node if size % node == 0 else 1
    return parts * allreduce_phases(size, node, inner, outer).unit(size, node)


@algorithm(
    ALLREDUCE,
    blocks=_blocks,
    paper="Karonis et al. 2000; Cho et al. 2019",
    tunables={
        "node": node_size(),
        "inner": either("ring", "inside groups", REDUCE_SCATTER, ALLGATHER),
        "outer": choice("rabenseifner", "across groups", ALLREDUCE),
    },
)
def hierarchical(
    rank: Any, size: int, node: int = 4, inner: str = "ring", outer: str = "rabenseifner"
) -> Iterator[Round]:
    """Reduce-scatter in each group, allreduce each part across groups, allgather in each group.

    Where the last group is smaller, each reduces to its first rank instead; these allreduce, and
    broadcast the result in their groups.
    """
    node = min(node, size)
    phases = allreduce_phases(size, node, inner, outer)
    if size % node or phases.before is None or phases.after is None:
        yield from phases.rounds(rank, size, node)
        return
    total = _blocks(size, node, inner, outer)
    part = total // node
    cut = evenly(rank % node * part, part, phases.across.blocks(size // node))
    yield from in_groups(phases.before, rank, size, node, lambda first, length: (0, total))
    yield from across_groups(phases.across, rank, size, node, cut, True)
    yield from in_groups(phases.after, rank, size, node, lambda first, length: (0, total))
