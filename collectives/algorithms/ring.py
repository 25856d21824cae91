"""Ring: every rank talks to its two neighbours only; bandwidth-optimal for any number of ranks.

The block of a rank travels once round the ring and collects a contribution at every stop; a
second turn spreads the results. 2 (p - 1) rounds, 2 n (p - 1) / p bytes sent by each rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.collective import ALLGATHER, ALLREDUCE, REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send

PAPER = "Patarasuk & Yuan 2009"


@algorithm(REDUCE_SCATTER, blocks=lambda size: size, name="ring", paper=PAPER)
def reduce_scatter(rank: Any, size: int) -> Iterator[Round]:
    """Pass partial sums to the right; rank r ends with the whole of block r."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(size - 1):
        yield [Send(right, (rank - k - 1) % size), Reduce(left, (rank - k - 2) % size)]


@algorithm(ALLGATHER, blocks=lambda size: size, name="ring", paper=PAPER)
def allgather(rank: Any, size: int) -> Iterator[Round]:
    """Pass whole blocks to the right, starting with one's own."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(size - 1):
        yield [Send(right, (rank - k) % size), Recv(left, (rank - k - 1) % size)]


@algorithm(ALLREDUCE, blocks=lambda size: size, paper=PAPER)
def ring(rank: Any, size: int) -> Iterator[Round]:
    """Reduce-scatter round the ring, then allgather round the ring."""
    yield from reduce_scatter(rank, size)
    yield from allgather(rank, size)
