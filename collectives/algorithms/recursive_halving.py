"""Recursive halving: a reduce-scatter in the fewest rounds, with ever fewer bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import both, core_size, fold
from collectives.collective import REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send


@algorithm(REDUCE_SCATTER, blocks=lambda size: size, paper="Thakur, Rabenseifner & Gropp 2005")
def recursive_halving(rank: Any, size: int) -> Iterator[Round]:
    """Give the half that others need to ever nearer peers, and add what comes to one's own.

    Where the number of ranks is no power of two, those beyond it first give all they have to a
    host, which collects their part along with its own.
    """
    core = core_size(size)
    yield from fold(rank, size, size)
    bit = core // 2
    while bit:
        peer = np.where(rank < core, rank ^ bit, NULL)
        keep = rank & -bit  # these, as many as bit, and those of their guests
        yield [
            *both(Send, peer, keep ^ bit, bit, size),
            *both(Reduce, peer, keep, bit, size),
        ]
        bit //= 2
    if core < size:
        guest = np.where(rank < size - core, rank + core, NULL)
        host = np.where(rank >= core, rank - core, NULL)
        yield [Send(guest, rank + core), Recv(host, rank)]
