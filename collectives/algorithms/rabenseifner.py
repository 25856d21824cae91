"""Rabenseifner's algorithms: few rounds and, in the power-of-two case, the fewest bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms import binomial
from collectives.algorithms.fold import core_size, fold, unfold
from collectives.collective import ALLREDUCE, REDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send


def _halvings(rank: Any, core: int) -> Iterator[tuple[Any, Any, Any, int]]:
    half = core // 2
    while half:
        keep = rank & -half  # the first of the blocks that this rank goes on to reduce
        yield np.where(rank < core, rank ^ half, NULL), keep, keep ^ half, half
        half //= 2


@algorithm(ALLREDUCE, blocks=core_size, paper="Rabenseifner 2004")
def rabenseifner(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with ever nearer peers (reduce-scatter), then double it back (allgather)."""
    core = core_size(size)
    yield from fold(rank, size, core)
    for peer, keep, give, half in _halvings(rank, core):
        yield [Send(peer, give, half), Reduce(peer, keep, half)]
    for peer, keep, give, half in reversed(list(_halvings(rank, core))):
        yield [Send(peer, keep, half), Recv(peer, give, half)]
    yield from unfold(rank, size, core)


@algorithm(REDUCE, blocks=core_size, name="rabenseifner", paper="Rabenseifner 2004")
def reduce(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with ever nearer peers, then gather the parts up a binomial tree."""
    core = core_size(size)
    yield from fold(rank, size, core)
    for peer, keep, give, half in _halvings(rank, core):
        yield [Send(peer, give, half), Reduce(peer, keep, half)]
    yield from binomial.gather(rank, core)
