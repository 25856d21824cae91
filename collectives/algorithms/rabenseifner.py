"""Rabenseifner's allreduce: few rounds and, in the power-of-two case, the fewest bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import core_size, fold, unfold
from collectives.collective import ALLREDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send


@algorithm(ALLREDUCE, blocks=core_size, paper="Rabenseifner 2004")
def rabenseifner(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with ever nearer peers (reduce-scatter), then double it back (allgather)."""
    core = core_size(size)
    yield from fold(rank, size, core)

    inside = rank < core
    first = rank * 0  # the blocks that this rank still reduces: first .. first + 2 half - 1
    halvings = []
    half = core // 2
    while half:
        peer = np.where(inside, rank ^ half, NULL)
        upper = (rank & half) != 0
        keep = np.where(upper, first + half, first)
        give = np.where(upper, first, first + half)
        yield [Send(peer, give, half), Reduce(peer, keep, half)]
        halvings.append((peer, keep, give, half))
        first, half = keep, half // 2
    for peer, keep, give, half in reversed(halvings):
        yield [Send(peer, keep, half), Recv(peer, give, half)]

    yield from unfold(rank, size, core)
