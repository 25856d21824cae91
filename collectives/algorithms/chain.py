"""Pipelined chain: the vector is cut into segments that follow each other along all ranks.

Every rank sends and receives the whole vector once, whatever the number of ranks: for long vectors
and few ranks. More segments fill the pipeline sooner, at the price of more messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.segments import DEFAULT, SEGMENTS, on_edge
from collectives.collective import ALLREDUCE, BCAST, REDUCE
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send

PAPER = "Pjesivac-Grbovic et al. 2007"


def _down(rank: Any, size: int, k: int, segments: int) -> Round:
    mine = k - rank  # the segment that a rank passes on in round k; behind it comes the next
    return [
        on_edge(Send, rank + 1, rank < size - 1, mine, segments),
        on_edge(Recv, rank - 1, rank > 0, mine + 1, segments),
    ]


def _up(rank: Any, size: int, k: int, segments: int) -> Round:
    mine = k - (size - 1 - rank)
    return [
        on_edge(Send, rank - 1, rank > 0, mine, segments),
        on_edge(Reduce, rank + 1, rank < size - 1, mine + 1, segments),
    ]


def _blocks(size: int, segments: int = DEFAULT) -> int:
    return segments


@algorithm(BCAST, blocks=_blocks, name="chain", paper=PAPER, tunables=SEGMENTS)
def bcast(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Pass segment after segment to the next rank."""
    for k in range(segments + size - 2 if size > 1 else 0):
        yield _down(rank, size, k, segments)


@algorithm(REDUCE, blocks=_blocks, name="chain", paper=PAPER, tunables=SEGMENTS)
def reduce(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Add segment after segment to those of the rank before."""
    for k in range(segments + size - 2 if size > 1 else 0):
        yield _up(rank, size, k, segments)


@algorithm(ALLREDUCE, blocks=_blocks, name="chain", paper=PAPER, tunables=SEGMENTS)
def allreduce(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Sum along the chain to rank 0; each segment turns round there and is passed back."""
    for k in range(segments + 2 * size - 3 if size > 1 else 0):
        yield _up(rank, size, k, segments) + _down(rank, size, k - (size - 1), segments)
