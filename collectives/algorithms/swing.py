"""Swing: halving and doubling with peers that lie close by on a ring, to either side in turns.

The peer of an even rank in step s lies 1, -1, 3, -5, 11, ... further on, that of an odd rank as far
back. On a ring or torus, where a message loads all links on its way, that is shorter than the
distances 1, 2, 4, 8, ... of Rabenseifner's algorithm. Rounds and bytes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.algorithms.fold import core_size, fold, place_of, rank_at, unfold
from collectives.collective import ALLREDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send


def _distance(step: int) -> int:
    power = 2 << step
    return (1 + power) // 3 if step % 2 == 0 else (1 - power) // 3


def _block(place: Any, core: int) -> Any:
    """Return the block that the rank at a place reduces in the end.

    What a place can still reach with steps s, s + 1, ... are those of the same residue modulo
    2 ** (s + 1), where odd ones count as the even ones that they meet in the last step. With the
    bits of that number in reverse order, what a rank sends in each step are consecutive blocks.
    """
    steps = core.bit_length() - 1
    even = np.where(place % 2, place - _distance(steps - 1), place) % core
    number = even // 2 + place % 2 * (core // 2)
    block = place * 0
    for bit in range(steps):
        block = 2 * block + (number >> bit) % 2
    return block


def _exchanges(rank: Any, size: int) -> Iterator[tuple[Any, Any, Any, int]]:
    core, place = core_size(size), place_of(rank, size)
    half = core // 2
    for step in range(core.bit_length() - 1):
        peer = np.where(place % 2, place - _distance(step), place + _distance(step)) % core
        keep, give = _block(place, core) & -half, _block(peer, core) & -half
        yield np.where(place >= 0, rank_at(peer, size), NULL), keep, give, half
        half //= 2


@algorithm(ALLREDUCE, blocks=core_size, paper="De Sensi et al. 2024")
def swing(rank: Any, size: int) -> Iterator[Round]:
    """Halve the vector with peers to either side in turns, then double it back the same way."""
    core = core_size(size)
    yield from fold(rank, size, core)
    for peer, keep, give, half in _exchanges(rank, size):
        yield [Send(peer, give, half), Reduce(peer, keep, half)]
    for peer, keep, give, half in reversed(list(_exchanges(rank, size))):
        yield [Send(peer, keep, half), Recv(peer, give, half)]
    yield from unfold(rank, size, core)
