"""Binomial tree: rooted collectives in ceil(log2 p) rounds, the root in all of them."""

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
    bit = 1
    while bit < size:
        child = np.where((rank < bit) & (rank + bit < size), rank + bit, NULL)
        parent = np.where((rank >= bit) & (rank < 2 * bit), rank - bit, NULL)
        yield [Send(child, 0, blocks), Recv(parent, 0, blocks)]
        bit *= 2


@algorithm(REDUCE, blocks=lambda size: 1, name="binomial", paper=PAPER)
def reduce(rank: Any, size: int) -> Iterator[Round]:
    """Let the upper half of those who are left add their vectors to the lower half's."""
    bit = 1 << max(0, (size - 1).bit_length() - 1)
    while bit and size > 1:
        parent = np.where((rank >= bit) & (rank < 2 * bit), rank - bit, NULL)
        child = np.where((rank < bit) & (rank + bit < size), rank + bit, NULL)
        yield [Send(parent, 0), Reduce(child, 0)]
        bit //= 2


@algorithm(SCATTER, blocks=lambda size: size, name="binomial", paper=PAPER)
def scatter(rank: Any, size: int) -> Iterator[Round]:
    """Send to each child all that its subtree needs, which is half of what one has."""
    bit = 1 << (size - 1).bit_length()
    while bit > 1:
        bit //= 2
        child, parent, first, count = _edge(rank, size, bit)
        yield [Send(child, first, count), Recv(parent, first, count)]


@algorithm(GATHER, blocks=lambda size: size, name="binomial", paper=PAPER)
def gather(rank: Any, size: int) -> Iterator[Round]:
    """Take from each child all that its subtree has, which doubles what one has."""
    bit = 1
    while bit < size:
        child, parent, first, count = _edge(rank, size, bit)
        yield [Send(parent, first, count), Recv(child, first, count)]
        bit *= 2


def _edge(rank: Any, size: int, bit: int) -> tuple[Index, Index, Index, Index]:
    """Return the child or the parent of a rank, and the blocks of the subtree below that edge.

    Ranks beyond ``size`` have none.
    """
    place = rank % (2 * bit)
    child = np.where((place == 0) & (rank + bit < size), rank + bit, NULL)
    parent = np.where((place == bit) & (rank < size), rank - bit, NULL)
    first = rank | bit  # of the child, on both sides
    return child, parent, first, np.clip(size - first, 0, bit)
