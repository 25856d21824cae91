"""Everything through rank 0: it collects, then hands out, with the linear algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms import linear
from collectives.algorithms.batches import FEW, MANY, window
from collectives.collective import ALLGATHER, ALLREDUCE, BARRIER, REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Round

PAPER = linear.PAPER


@algorithm(ALLREDUCE, blocks=lambda size, **_: 1, name="linear", paper=PAPER, tunables=window(FEW))
def allreduce(rank: Any, size: int, window: int = FEW) -> Iterator[Round]:
    """Let rank 0 add all vectors, in the order of ranks, and send the sum to each rank."""
    yield from linear.reduce(rank, size, window)
    yield from linear.bcast(rank, size, window)


@algorithm(
    REDUCE_SCATTER, blocks=lambda size, **_: size, name="linear", paper=PAPER, tunables=window(FEW)
)
def reduce_scatter(rank: Any, size: int, window: int = FEW) -> Iterator[Round]:
    """Let rank 0 add all vectors, in the order of ranks, and send its part to each rank."""
    yield from linear.reduce(rank, size, window, size)
    yield from linear.scatter(rank, size, window)


@algorithm(
    BARRIER, blocks=lambda size, **_: size, name="linear", paper=PAPER, tunables=window(MANY)
)
@algorithm(
    ALLGATHER, blocks=lambda size, **_: size, name="linear", paper=PAPER, tunables=window(MANY)
)
def allgather(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Let rank 0 hear from all ranks, and send what they said to each."""
    yield from linear.gather(rank, size, window)
    yield from linear.bcast(rank, size, window, size)
