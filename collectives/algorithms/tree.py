"""Tree allreduce: a binomial reduction to rank 0, then a binomial broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms import binomial
from collectives.collective import ALLREDUCE
from collectives.registry import algorithm
from collectives.step import Round


@algorithm(ALLREDUCE, blocks=lambda size: 1, paper="Thakur, Rabenseifner & Gropp 2005")
def tree(rank: Any, size: int) -> Iterator[Round]:
    """Reduce up a binomial tree and broadcast down it; the whole vector on every edge."""
    yield from binomial.reduce(rank, size)
    yield from binomial.bcast(rank, size)
