"""Two binary trees over the same ranks, of which no rank but one is a leaf in both or in neither.

In the first tree ranks 1 .. q stand in order from left to right, so odd ones are leaves and even
ones are not; a rank with low bit b has its children b / 2 away. In the second the ranks change
places with those of the other parity: they are mirrored where q is even, moved on by one where it
is odd. Rank 0 stands above both (Sanders, Speck & Träff 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.step import NULL


@dataclass(frozen=True, slots=True)
class Edges:
    """The place of a rank, or of each rank, in a tree; ranks are `NULL` where there is none.

    Attributes:
        parent: rank 0 has none.
        left: a child.
        right: another child, the only one of rank 0.
        depth: edges between it and rank 0.
        deepest: the greatest depth in the tree.
    """

    parent: Any
    left: Any
    right: Any
    depth: Any
    deepest: int


def depth(size: int) -> int:
    """Return the greatest depth of both trees over ``size`` ranks."""
    return (size - 1).bit_length()


def two_trees(rank: Any, size: int) -> list[Edges]:
    """Return the place of a rank, or of an array of ranks, in each of the two trees."""
    last = size - 1
    if last < 1:
        return []
    if last % 2:
        second = _edges(np.where(rank > 0, (rank - 2) % last + 1, 0), last)
        back = _each(second, lambda place: np.where(place > 0, place % last + 1, place))
    else:
        second = _edges(np.where(rank > 0, size - rank, 0), last)
        back = _each(second, lambda place: np.where(place > 0, size - place, place))
    return [_edges(rank, last), back]


def _each(e: Edges, rank_at: Any) -> Edges:
    return Edges(rank_at(e.parent), rank_at(e.left), rank_at(e.right), e.depth, e.deepest)


def _edges(place: Any, last: int) -> Edges:
    low = place & -place
    step = _power_of_two(np.where(place > 0, np.minimum(low // 2, last - place), last))
    hops, above = place * 0, place
    while np.any(above):
        hops = hops + (above > 0)
        above = _parent(above, last)
    return Edges(
        np.where(place > 0, _parent(place, last), NULL),
        np.where(low > 1, place - low // 2, NULL),
        np.where(step > 0, place + step, NULL),
        hops,
        depth(last + 1),
    )


def _parent(place: Any, last: int) -> Any:
    low = place & -place
    above = (place ^ low) | 2 * low
    return np.where(above > last, place ^ low, above)


def _power_of_two(n: Any) -> Any:
    """Return the greatest power of two that is not above n, or 0."""
    return np.ldexp(0.5, np.frexp(n)[1]).astype(np.int64)
