"""Recursive doubling: the fewest rounds; in each, everything travels that a rank has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.fold import (
    core_size,
    fold,
    guest_of,
    host_of,
    peer_at,
    place_of,
    span,
    unfold,
)
from collectives.collective import ALLGATHER, ALLREDUCE, BARRIER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send

PAPER = "Thakur, Rabenseifner & Gropp 2005"


@algorithm(ALLREDUCE, blocks=lambda size: 1, paper=PAPER)
def recursive_doubling(rank: Any, size: int) -> Iterator[Round]:
    """Exchange everything with the rank that differs in one bit, bit after bit."""
    yield from fold(rank, size, 1)
    place, bit = place_of(rank, size), 1
    while bit < core_size(size):
        peer = peer_at(place, bit, size)
        yield [Send(peer, 0), Reduce(peer, 0)]
        bit *= 2
    yield from unfold(rank, size, 1)


@algorithm(BARRIER, blocks=lambda size: size, name="recursive_doubling", paper=PAPER)
@algorithm(ALLGATHER, blocks=lambda size: size, name="recursive_doubling", paper=PAPER)
def allgather(rank: Any, size: int) -> Iterator[Round]:
    """Exchange all blocks that one has with the rank that differs in one bit, bit after bit."""
    core = core_size(size)
    guest, host = guest_of(rank, size), host_of(rank, size)
    if core < size:
        yield [Send(host, rank), Recv(guest, rank + 1)]
    place, bit = place_of(rank, size), 1
    while bit < core:
        peer, held = peer_at(place, bit, size), place & -bit
        yield [Send(peer, *span(held, bit, size)), Recv(peer, *span(held ^ bit, bit, size))]
        bit *= 2
    if core < size:
        yield [
            Send(guest, 0, rank + 1),
            Send(guest, rank + 2, size - 2 - rank),
            Recv(host, 0, rank),
            Recv(host, rank + 1, size - 1 - rank),
        ]
