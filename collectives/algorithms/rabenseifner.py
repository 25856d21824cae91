"""Rabenseifner's algorithms: few rounds and, in the power-of-two case, the fewest bytes.

The vector is halved with peers 1, 2, 4, ... ranks away, so that the longest messages go to the
nearest ranks, which are mostly on the same node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import core_size, fold, peer_at, place_of, unfold
from collectives.collective import ALLREDUCE, REDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send


def _halvings(place: Any, core: int) -> list[tuple[int, Any, Any, int]]:
    """Return for each halving the distance of the peer, what a place keeps and gives, how much.

    Half of what is left goes to the peer. So what is kept in the end is the block whose number has
    the bits of the place in reverse order.
    """
    found = []
    keep, half, bit = place * 0, core // 2, 1
    while half:
        first, upper = keep, place // bit % 2 * half
        keep = first + upper
        found.append((bit, keep, first + half - upper, half))
        half, bit = half // 2, 2 * bit
    return found


def _halve(rank: Any, size: int) -> Iterator[Round]:
    place = place_of(rank, size)
    for bit, keep, give, half in _halvings(place, core_size(size)):
        peer = peer_at(place, bit, size)
        yield [Send(peer, give, half), Reduce(peer, keep, half)]


@algorithm(ALLREDUCE, blocks=core_size, paper="Rabenseifner 2004")
def rabenseifner(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with ever farther peers (reduce-scatter), then double it (allgather)."""
    core = core_size(size)
    yield from fold(rank, size, core)
    yield from _halve(rank, size)
    place = place_of(rank, size)
    for bit, keep, give, half in reversed(_halvings(place, core)):
        peer = peer_at(place, bit, size)
        yield [Send(peer, keep, half), Recv(peer, give, half)]
    yield from unfold(rank, size, core)


@algorithm(REDUCE, blocks=core_size, name="rabenseifner", paper="Rabenseifner 2004")
def reduce(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with ever farther peers, then gather the parts up a binomial tree."""
    core = core_size(size)
    yield from fold(rank, size, core)
    yield from _halve(rank, size)
    place = place_of(rank, size)
    for bit, keep, give, half in reversed(_halvings(place, core)):
        peer = peer_at(place, bit, size)
        parent = np.where((place >= bit) & (place < 2 * bit), peer, NULL)
        child = np.where(place < bit, peer, NULL)
        yield [Send(parent, keep, half), Recv(child, give, half)]
