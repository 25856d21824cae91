"""The messages of one round as their senders, or their receivers, see them, for all ranks at once.

Each rank handles its messages one after the other, so they are kept in lots: the first message of
each rank that has one, then the second ones, and so on. A lot is one vector operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[Any]

ALL = slice(None)
"""The index of everything."""


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """Messages of which no rank has two.

    Attributes:
        ranks: index of the ranks that have one.
        messages: where they stand among the messages of the side.
        own: which of them use the link of the rank itself: an index into the lot, None for all.
        far: which of them use the link of the node: an index into the lot, None where none does.
        node: the node of each of ``far``.
    """

    ranks: Any
    messages: slice
    own: Any = None
    far: Any = None
    node: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What the steps of a round contribute to its messages, on one side.

    Attributes:
        step: number of the step in the round, for each part.
        owner: the rank that has the step.
        peer: the other rank.
    """

    step: Vector
    owner: Vector
    peer: Vector

    @staticmethod
    def of(steps: Sequence[int], peers: Sequence[Vector]) -> Parts:
        """Return the parts of some steps, by step and then by rank; no peer is below 0."""
        owners = [np.flatnonzero(p >= 0) for p in peers]
        none = np.empty(0, np.int64)
        return Parts(
            np.repeat(np.array(steps, np.int64), [o.size for o in owners]),
            np.concatenate([none, *owners]),
            np.concatenate([none, *(p[o] for p, o in zip(peers, owners, strict=True))]),
        )

    def take(self, index: Vector) -> Parts:
        """Return some of the parts."""
        return Parts(self.step[index], self.owner[index], self.peer[index])


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The messages of a round, lot by lot, in each by ascending ranks.

    Attributes:
        rank: whose each message is, int64 (messages,).
        far: which of them go between nodes: a mask, or False for none.
        local: which of them a rank sends to itself: a mask, or False for none.
        lots: in the order in which a rank handles them.
        parts: what they are made of.
        member: the message that each part belongs to; None where the parts are the messages, all
            of one step.
        reduces: which of the parts are accumulated: a mask, True for all, or False for none.
        steps: the numbers of the steps, where no two of them share a message; else none.
    """

    rank: Vector
    far: Any
    local: Any
    lots: list[Lot]
    parts: Parts
    member: Vector | None
    reduces: Any
    steps: tuple[int, ...]

    def nbytes(self, lengths: Sequence[Any]) -> Any:
        """Return the bytes of each message, from those of the steps of the round.

        Args:
            lengths: for each step of the round, a number or an array over all ranks.

        Returns:
            A number where all are alike, else float64 (messages,).
        """
        if self.member is None:
            return pick(lengths[self.parts.step[0]], self.parts.owner) if self.rank.size else 0.0
        if self.steps:  # each step is a message of its own
            first = lengths[self.steps[0]]
            numbers = not any(isinstance(lengths[i], np.ndarray) for i in self.steps)
            if numbers and all(lengths[i] == first for i in self.steps):
                return first
        return np.bincount(self.member, self._lengths(lengths), self.rank.size)

    def reduced(self, lengths: Sequence[Any]) -> Any:
        """Return how many bytes of each message are accumulated, like `nbytes`."""
        if self.reduces is False:
            return 0.0
        if self.reduces is True or self.member is None:
            return self.nbytes(lengths)
        return np.bincount(self.member, self.reduces * self._lengths(lengths), self.rank.size)

    def _lengths(self, lengths: Sequence[Any]) -> Vector:
        found = np.empty(self.parts.step.size)
        step, owner = self.parts.step, self.parts.owner
        for a, b in pairwise([*np.flatnonzero(np.diff(step, prepend=-1)), step.size]):
            found[a:b] = pick(lengths[step[a]], owner[a:b])
        return found


def pick(values: Any, index: Any) -> Any:
    """Return ``values[index]``, or the value where there is one for all."""
    return values[index] if isinstance(values, np.ndarray) and values.ndim else values


def side_of(parts: Parts, key: Vector, size: int, node: Vector | None, reduces: Any) -> Side:
    """Put the parts together to messages.

    Args:
        parts: of one side.
        key: parts with the same key are one message.
        size: number of ranks.
        node: of each rank, int64 (size,); None where all are on one.
        reduces: as in `Side`.
    """
    _, first, member = np.unique(key, return_index=True, return_inverse=True)
    rank = parts.owner[first]
    by_rank = np.lexsort((first, rank))
    turn = np.empty(rank.size, np.int64)  # is it the first message of its rank, the second, ...?
    turn[by_rank] = _within_groups(rank[by_rank])
    order = np.lexsort((rank, turn))
    number = np.empty(rank.size, np.int64)
    number[order] = np.arange(rank.size)
    first, rank = first[order], rank[order]
    peer = parts.peer[first]
    return made_side(
        parts, rank, peer, np.bincount(turn[order]), number[member], size, node, reduces
    )


def made_side(
    parts: Parts,
    rank: Vector,
    peer: Vector,
    counts: Sequence[int] | Vector,
    member: Vector | None,
    size: int,
    node: Vector | None,
    reduces: Any,
) -> Side:
    """Return a side whose messages are in order already.

    Args:
        parts: of one side.
        rank: whose each message is.
        peer: the other end of each.
        counts: the number of messages of each lot.
        member: as in `Side`.
        size: number of ranks.
        node: as for `side_of`.
        reduces: as in `Side`.
    """
    local: Any = rank == peer
    local = local if local.any() else False
    far: Any = False
    if node is not None:
        far = node[rank] != node[peer]
        far = far if far.any() else False
    lots = []
    stop = 0
    for count in counts:
        start, stop = stop, stop + int(count)
        lots.append(_lot(rank, slice(start, stop), far, local, size, node))
    steps: tuple[int, ...] = ()
    if parts.step.size == rank.size and member is not None:
        steps = tuple(np.flatnonzero(np.bincount(parts.step)).tolist())
    return Side(rank, far, local, lots, parts, member, reduces, steps)


def _lot(
    rank: Vector, messages: slice, far: Any, local: Any, size: int, node: Vector | None
) -> Lot:
    whose = rank[messages]
    ranks = ALL if whose.size == size else whose
    if far is False and local is False:
        return Lot(ranks, messages)
    outside = pick(far, messages) | pick(local, messages)
    own = np.flatnonzero(~outside)
    if far is False or node is None:
        return Lot(ranks, messages, own)
    beyond = np.flatnonzero(far[messages])
    return Lot(ranks, messages, own, beyond, node[whose[beyond]])


def _within_groups(sorted_values: Vector) -> Vector:
    """Return for each of sorted values how many equal ones stand before it."""
    n = sorted_values.size
    fresh = np.ones(n, bool)
    fresh[1:] = sorted_values[1:] != sorted_values[:-1]
    place = np.arange(n)
    return place - np.maximum.accumulate(np.where(fresh, place, 0))
