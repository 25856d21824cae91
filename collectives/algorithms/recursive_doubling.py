"""Recursive doubling: the fewest rounds; in each, everything travels that a rank has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import both, core_size, fold, unfold
from collectives.collective import ALLGATHER, ALLREDUCE, BARRIER
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send

PAPER = "Thakur, Rabenseifner & Gropp 2005"


@algorithm(ALLREDUCE, blocks=lambda size: 1, paper=PAPER)
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


@algorithm(BARRIER, blocks=lambda size: size, name="recursive_doubling", paper=PAPER)
@algorithm(ALLGATHER, blocks=lambda size: size, name="recursive_doubling", paper=PAPER)
def allgather(rank: Any, size: int) -> Iterator[Round]:
    """Exchange all blocks that one has with the rank that differs in one bit, bit after bit."""
    core = core_size(size)
    guest = np.where(rank < size - core, rank + core, NULL)
    host = np.where(rank >= core, rank - core, NULL)
    if core < size:
        yield [Send(host, rank), Recv(guest, rank + core)]
    bit = 1
    while bit < core:
        peer = np.where(rank < core, rank ^ bit, NULL)
        held = rank & -bit  # these, as many as bit, and those of their guests
        yield [
            *both(Send, peer, held, bit, size),
            *both(Recv, peer, held ^ bit, bit, size),
        ]
        bit *= 2
    if core < size:
        yield [
            Send(guest, 0, rank + core),
            Send(guest, rank + core + 1, size - core - 1 - rank),
            Recv(host, 0, rank),
            Recv(host, rank + 1, size - 1 - rank),
        ]
