"""Tree: up a binomial tree to rank 0, then down another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms import binomial
from collectives.collective import ALLREDUCE, BARRIER
from collectives.registry import algorithm
from collectives.step import Round


@algorithm(ALLREDUCE, blocks=lambda size: 1, paper="Thakur, Rabenseifner & Gropp 2005")
def tree(rank: Any, size: int) -> Iterator[Round]:
    """Reduce up a binomial tree and broadcast down it; the whole vector on every edge."""
    yield from binomial.reduce(rank, size)
    yield from binomial.bcast(rank, size)


@algorithm(BARRIER, blocks=lambda size: size, name="tree", paper="Hensgen, Finkel & Manber 1988")
def barrier(rank: Any, size: int) -> Iterator[Round]:
    """Tell rank 0, up a binomial tree, that all have come, and hear of it down the tree."""
    yield from binomial.gather(rank, size)
    yield from binomial.bcast(rank, size, size)
