"""Recursive halving: a reduce-scatter in the fewest rounds, with ever fewer bytes."""

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
)
from collectives.collective import REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send


@algorithm(REDUCE_SCATTER, blocks=lambda size: size, paper="Thakur, Rabenseifner & Gropp 2005")
def recursive_halving(rank: Any, size: int) -> Iterator[Round]:
    """Give the half that others need to ever nearer peers, and add what comes to one's own.

    Where the number of ranks is no power of two, some first give all they have to a host, which
    collects their part along with its own.
    """
    core = core_size(size)
    yield from fold(rank, size, size)
    place, bit = place_of(rank, size), core // 2
    while bit:
        peer, keep = peer_at(place, bit, size), place & -bit
        yield [Send(peer, *span(keep ^ bit, bit, size)), Reduce(peer, *span(keep, bit, size))]
        bit //= 2
    if core < size:
        yield [Send(guest_of(rank, size), rank + 1), Recv(host_of(rank, size), rank)]
