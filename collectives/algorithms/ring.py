"""Ring: every rank talks to its two neighbours only; bandwidth-optimal for any number of ranks.

The block of a rank travels once round the ring and collects a contribution at every stop; a
second turn spreads the results. 2 (p - 1) rounds, 2 n (p - 1) / p bytes sent by each rank. Where
blocks are cut into segments, one of them is added while the next one is on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.collective import ALLGATHER, ALLREDUCE, REDUCE_SCATTER
from collectives.registry import Tunable, algorithm
from collectives.step import Recv, Reduce, Round, Send

PAPER = "Patarasuk & Yuan 2009"
SEGMENTS = {
    "segments": Tunable(1, lambda size: [1, 2, 4, 8], "pieces of a block, sent one after the other")
}


def _blocks(size: int, segments: int = 1) -> int:
    return size * segments


@algorithm(REDUCE_SCATTER, blocks=_blocks, name="ring", paper=PAPER, tunables=SEGMENTS)
def reduce_scatter(rank: Any, size: int, segments: int = 1) -> Iterator[Round]:
    """Pass partial sums to the right; rank r ends with the whole of block r."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(size - 1):
        give, take = (rank - k - 1) % size, (rank - k - 2) % size
        for s in range(segments):
            yield [Send(right, give * segments + s), Reduce(left, take * segments + s)]


@algorithm(ALLGATHER, blocks=_blocks, name="ring", paper=PAPER, tunables=SEGMENTS)
def allgather(rank: Any, size: int, segments: int = 1) -> Iterator[Round]:
    """Pass whole blocks to the right, starting with one's own."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for k in range(size - 1):
        give, take = (rank - k) % size, (rank - k - 1) % size
        for s in range(segments):
            yield [Send(right, give * segments + s), Recv(left, take * segments + s)]


@algorithm(ALLREDUCE, blocks=_blocks, paper=PAPER, tunables=SEGMENTS)
def ring(rank: Any, size: int, segments: int = 1) -> Iterator[Round]:
    """Reduce-scatter round the ring, then allgather round the ring."""
    yield from reduce_scatter(rank, size, segments)
    yield from allgather(rank, size, segments)
