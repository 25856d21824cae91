"""Binomial tree: rooted collectives in ceil(log2 p) rounds, the root in all of them.

A subtree is consecutive ranks, so that few edges lie between nodes: the longest edges are the
first ones on the way down, and the last ones on the way up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.collective import BCAST, GATHER, REDUCE, SCATTER
from collectives.registry import algorithm
from collectives.step import NULL, Index, Recv, Reduce, Round, Send

PAPER = "Thakur, Rabenseifner & Gropp 2005"


@algorithm(BCAST, blocks=lambda size: 1, name="binomial", paper=PAPER)
def bcast(rank: Any, size: int, blocks: int = 1) -> Iterator[Round]:
    """Let everyone who has the data pass it on: the number of those doubles in each round."""
    for bit in reversed(_bits(size)):
        child, parent = _ends(rank, size, bit)
        yield [Send(child, 0, blocks), Recv(parent, 0, blocks)]


@algorithm(REDUCE, blocks=lambda size: 1, name="binomial", paper=PAPER)
def reduce(rank: Any, size: int) -> Iterator[Round]:
    """Let every other one of those who are left add its vector to that of the one before."""
    for bit in _bits(size):
        child, parent = _ends(rank, size, bit)
        yield [Send(parent, 0), Reduce(child, 0)]


@algorithm(SCATTER, blocks=lambda size: size, name="binomial", paper=PAPER)
def scatter(rank: Any, size: int) -> Iterator[Round]:
    """Send to each child all that its subtree needs, which is half of what one has."""
    for bit in reversed(_bits(size)):
        child, parent = _ends(rank, size, bit)
        first, count = _subtree(rank, size, bit)
        yield [Send(child, first, count), Recv(parent, first, count)]


@algorithm(GATHER, blocks=lambda size: size, name="binomial", paper=PAPER)
def gather(rank: Any, size: int) -> Iterator[Round]:
    """Take from each child all that its subtree has, which doubles what one has."""
    for bit in _bits(size):
        child, parent = _ends(rank, size, bit)
        first, count = _subtree(rank, size, bit)
        yield [Send(parent, first, count), Recv(child, first, count)]


def _bits(size: int) -> list[int]:
    """Return the lengths of the edges, in ranks: 1, 2, 4, ..."""
    return [1 << k for k in range((size - 1).bit_length())]


def _ends(rank: Any, size: int, bit: int) -> tuple[Index, Index]:
    """Return the child and the parent of a rank over the edges of one length."""
    place = rank % (2 * bit)
    child = np.where((place == 0) & (rank + bit < size), rank + bit, NULL)
    return child, np.where(place == bit, rank - bit, NULL)


def _subtree(rank: Any, size: int, bit: int) -> tuple[Index, Index]:
    """Return the blocks below an edge, for both of its ends: the first one, and how many."""
    first = rank | bit
    return first, np.clip(size - first, 0, bit)
