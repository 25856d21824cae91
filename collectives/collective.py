"""What each collective promises, as data: the start and the goal that `verify` holds it to.

The state of a schedule is, for each rank and each block, how often it contains each token. The
token ``(origin, b)`` stands for block ``b`` as rank ``origin`` held it at the start. So a sum is
a vector of counts, a copy is a vector with a single one, and "each contribution exactly once" is
an equality of vectors. Where a block number means the same data on all ranks, block ``b`` can
contain tokens ``(origin, b)`` only, and the vector has an entry for each origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.bool_]
Tokens: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation.

    Attributes:
        name: as in MPI, in lower case.
        given: ``given(size, blocks)`` -> bool (size, blocks): which blocks hold input.
        required: ``required(size, blocks)`` -> bool (size, blocks): which blocks hold output.
        sources: ``sources(rank, block, size, blocks)`` -> the tokens ``(origin, block)`` that an
            output block must contain, each exactly once.
        one_space: a block number means the same data on all ranks, so that a send and its receive
            name the same blocks (not so where blocks are addressed by destination).
        fits: ``fits(size, blocks)`` -> whether the data can be split into so many blocks.
    """

    name: str
    given: Callable[[int, int], Mask]
    required: Callable[[int, int], Mask]
    sources: Callable[[int, int, int, int], list[tuple[int, int]]]
    one_space: bool = True
    fits: Callable[[int, int], bool] = lambda size, blocks: True

    def tokens(self, size: int, blocks: int) -> int:
        """Return how many different tokens a block can contain."""
        return size if self.one_space else size * blocks

    def token(self, number: int, block: int, blocks: int) -> tuple[int, int]:
        """Return the token ``(origin, b)`` that an entry of the counts of a block stands for."""
        return (number, block) if self.one_space else divmod(number, blocks)

    def start(self, size: int, blocks: int) -> Tokens:
        """Return the token counts at the start: int16 (size, blocks, tokens)."""
        state = np.zeros((size, blocks, self.tokens(size, blocks)), np.int16)
        rank, block = np.nonzero(self.given(size, blocks))
        state[rank, block, rank if self.one_space else rank * blocks + block] = 1
        return state

    def goals(self, size: int, blocks: int) -> Tokens:
        """Return the token counts of all output blocks at the end: int16 (size, blocks, tokens).

        Raises:
            ValueError: the data cannot be split into so many blocks.
        """
        fits = self.fits(size, blocks)
        for mask in (self.given, self.required) if fits else ():
            fits = fits and mask(size, blocks).shape == (size, blocks)
        goals = np.zeros((size, blocks, self.tokens(size, blocks)), np.int16)
        for rank, block in np.argwhere(self.required(size, blocks)).tolist() if fits else ():
            origin, b = np.array(self.sources(rank, block, size, blocks)).reshape(-1, 2).T
            inside = (origin >= 0) & (origin < size) & (b >= 0) & (b < blocks)
            if self.one_space:
                inside &= b == block
            fits = fits and bool(inside.all())
            if fits:
                goals[rank, block, origin if self.one_space else origin * blocks + b] = 1
        if not fits:
            raise ValueError(f"{self.name} cannot be done with {blocks} blocks")
        return goals


def _everywhere(size: int, blocks: int) -> Mask:
    return np.ones((size, blocks), bool)


def _at_root(size: int, blocks: int) -> Mask:
    mask = np.zeros((size, blocks), bool)
    mask[0] = True
    return mask


def owner(block: int, size: int, blocks: int) -> int:
    """Return the rank that owns a block where blocks are dealt out evenly, in order of ranks."""
    return block // (blocks // size)


def _at_owner(size: int, blocks: int) -> Mask:
    return np.repeat(np.eye(size, dtype=bool), blocks // size, axis=1)


def _dealt(size: int, blocks: int) -> bool:
    return blocks % size == 0


def _among(first: int, last: int, size: int, blocks: int) -> Mask:
    mask = np.zeros((size, blocks), bool)
    mask[:, first:last] = True
    return mask


def _everyone(rank: int, block: int, size: int, blocks: int) -> list[tuple[int, int]]:
    return [(origin, block) for origin in range(size)]


def _root(rank: int, block: int, size: int, blocks: int) -> list[tuple[int, int]]:
    return [(0, block)]


def _owner(rank: int, block: int, size: int, blocks: int) -> list[tuple[int, int]]:
    return [(owner(block, size, blocks), block)]


ALLREDUCE = Collective("allreduce", _everywhere, _everywhere, _everyone)
REDUCE = Collective("reduce", _everywhere, _at_root, _everyone)
BCAST = Collective("bcast", _at_root, _everywhere, _root)
REDUCE_SCATTER = Collective("reduce_scatter", _everywhere, _at_owner, _everyone, fits=_dealt)
ALLGATHER = Collective("allgather", _at_owner, _everywhere, _owner, fits=_dealt)
GATHER = Collective("gather", _at_owner, _at_root, _owner, fits=_dealt)
SCATTER = Collective("scatter", _at_root, _at_owner, _root, fits=_dealt)
ALLTOALL = Collective(
    # Blocks 0 .. size-1 are what goes to each rank, blocks size .. 2 size - 1 what came from each;
    # all further blocks are scratch.
    "alltoall",
    lambda size, blocks: _among(0, size, size, blocks),
    lambda size, blocks: _among(size, 2 * size, size, blocks),
    lambda rank, block, size, blocks: [(block - size, rank)],
    one_space=False,
    fits=lambda size, blocks: blocks >= 2 * size,
)
BARRIER = Collective(
    # A token of each rank must have come to all: nobody leaves before everybody has entered. The
    # blocks hold no data when it runs.
    "barrier",
    _at_owner,
    _everywhere,
    _owner,
    fits=_dealt,
)

COLLECTIVES = {
    c.name: c
    for c in (
        ALLREDUCE,
        REDUCE,
        BCAST,
        REDUCE_SCATTER,
        ALLGATHER,
        ALLTOALL,
        GATHER,
        SCATTER,
        BARRIER,
    )
}
"""All collectives, by name."""
