"""Recursive doubling: the fewest rounds; the whole vector travels in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import core_size, fold, unfold
from collectives.collective import ALLREDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Reduce, Round, Send


@algorithm(ALLREDUCE, blocks=lambda size: 1, paper="Thakur, Rabenseifner & Gropp 2005")
def recursive_doubling(rank: Any, size: int) -> Iterator[Round]:
    """Exchange everything with the rank that differs in one bit, bit after bit."""
    core = core_size(size)
    yield from fold(rank, size, 1)
    bit = 1
    while bit < core:
        peer = np.where(rank < core, rank ^ bit, NULL)
        yield [Send(peer, 0), Reduce(peer, 0)]
        bit *= 2
    yield from unfold(rank, size, 1)
