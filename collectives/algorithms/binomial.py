"""Binomial tree: broadcast from rank 0 and reduce to rank 0 in ceil(log2 p) rounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.collective import BCAST, REDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send

PAPER = "Thakur, Rabenseifner & Gropp 2005"


@algorithm(BCAST, blocks=lambda size: 1, name="binomial", paper=PAPER)
def bcast(rank: Any, size: int) -> Iterator[Round]:
    """Let everyone who has the data pass it on: the number of those doubles in each round."""
    bit = 1
    while bit < size:
        child = np.where((rank < bit) & (rank + bit < size), rank + bit, NULL)
        parent = np.where((rank >= bit) & (rank < 2 * bit), rank - bit, NULL)
        yield [Send(child, 0), Recv(parent, 0)]
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
