"""Fold any number of ranks onto a power of two, and unfold the result.

Algorithms that pair ranks by ``rank XOR bit`` need a power of two: the core. The ranks too many are
guests: the first ranks form pairs of a host and, next above it, its guest, which first gives its
data to the host, sits out, and is sent the result at the end (Thakur, Rabenseifner & Gropp 2005).
It costs one message of the full vector at either end, mostly inside a node.

A host, or a rank without a guest, has a place in the core. As places are in the order of ranks, the
ranks of consecutive places and their guests are consecutive too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from collectives.step import NULL, Index, Recv, Reduce, Round, Send


def core_size(size: int) -> int:
    """Return the largest power of two that is not above ``size``."""
    return 1 << (size.bit_length() - 1)


def place_of(rank: Any, size: int) -> Any:
    """Return the place of a rank in the core, or `NULL` for a guest."""
    guests = size - core_size(size)
    place = np.where(rank < 2 * guests, rank // 2, rank - guests)
    return np.where(guest_of(rank - 1, size) >= 0, NULL, place)


def rank_at(place: Any, size: int) -> Any:
    """Return the rank at a place: as many are below it as places, and their guests."""
    return place + np.minimum(place, size - core_size(size))


def guest_of(rank: Any, size: int) -> Index:
    """Return the guest of a rank, or `NULL` where it has none."""
    guests = size - core_size(size)
    return np.where((rank >= 0) & (rank < 2 * guests) & (rank % 2 == 0), rank + 1, NULL)


def host_of(rank: Any, size: int) -> Index:
    """Return the host of a rank, or `NULL` where it is no guest."""
    return np.where(guest_of(rank - 1, size) >= 0, rank - 1, NULL)


def peer_at(place: Any, bit: int, size: int) -> Index:
    """Return the rank whose place differs in one bit; `NULL` for the place of a guest."""
    return np.where(place >= 0, rank_at(place ^ bit, size), NULL)


def span(place: Any, places: int, size: int) -> tuple[Any, Any]:
    """Return the first block, and how many, of the ranks of some places from one on and guests."""
    first = rank_at(place, size)
    return first, rank_at(place + places, size) - first


def fold(rank: Any, size: int, blocks: int) -> Iterator[Round]:
    """Let each guest add its vector to that of its host."""
    if core_size(size) < size:
        yield [Send(host_of(rank, size), 0, blocks), Reduce(guest_of(rank, size), 0, blocks)]


def unfold(rank: Any, size: int, blocks: int) -> Iterator[Round]:
    """Send the result to the guests."""
    if core_size(size) < size:
        yield [Send(guest_of(rank, size), 0, blocks), Recv(host_of(rank, size), 0, blocks)]
