"""Bidirectional ring: half of the data goes round to the right while the other half goes left.

Rank r's part is two blocks: 2 r goes to the right, 2 r + 1 to the left. It sends as many bytes as
the ring does, on both of a rank's links at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.collective import ALLGATHER, ALLREDUCE, REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send

NAME, PAPER = "bidirectional_ring", "Jain & Sabharwal 2010"


@algorithm(REDUCE_SCATTER, blocks=lambda size: 2 * size, name=NAME, paper=PAPER)
def reduce_scatter(rank: Any, size: int) -> Iterator[Round]:
    """Pass partial sums of one half to the right, of the other half to the left."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(1, size):
        yield [
            Send(right, 2 * ((rank - k) % size)),
            Send(left, 2 * ((rank + k) % size) + 1),
            Reduce(left, 2 * ((rank - k - 1) % size)),
            Reduce(right, 2 * ((rank + k + 1) % size) + 1),
        ]


@algorithm(ALLGATHER, blocks=lambda size: 2 * size, name=NAME, paper=PAPER)
def allgather(rank: Any, size: int) -> Iterator[Round]:
    """Pass one half of each part to the right, the other half to the left."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(size - 1):
        yield [
            Send(right, 2 * ((rank - k) % size)),
            Send(left, 2 * ((rank + k) % size) + 1),
            Recv(left, 2 * ((rank - k - 1) % size)),
            Recv(right, 2 * ((rank + k + 1) % size) + 1),
        ]


@algorithm(ALLREDUCE, blocks=lambda size: 2 * size, paper=PAPER)
def bidirectional_ring(rank: Any, size: int) -> Iterator[Round]:
    """Reduce-scatter round the ring in both directions, then allgather so."""
    yield from reduce_scatter(rank, size)
    yield from allgather(rank, size)
