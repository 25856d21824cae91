"""Scatter-allgather: a broadcast of long vectors, of which every rank passes on a part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms import binomial, ring
from collectives.collective import BCAST
from collectives.registry import algorithm
from collectives.step import Round


@algorithm(BCAST, blocks=lambda size: size, paper="Barnett et al. 1994")
def scatter_allgather(rank: Any, size: int) -> Iterator[Round]:
    """Scatter the vector down a binomial tree, then allgather it round the ring (van de Geijn)."""
    yield from binomial.scatter(rank, size)
    yield from ring.allgather(rank, size)
