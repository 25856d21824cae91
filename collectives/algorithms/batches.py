"""Rounds of a few messages each, where a rank has to talk to many."""

from __future__ import annotations

from collections.abc import Iterator

from collectives.registry import Tunable

MANY, FEW = 32, 4
"""How many messages a rank has in flight: those that are stored, and those that are reduced, as
each of these needs memory of its own until it is added."""


def batches(size: int, window: int) -> Iterator[range]:
    """Yield ``1 .. size - 1`` in ranges of at most ``window``."""
    for first in range(1, size, window):
        yield range(first, min(first + window, size))


def window(default: int) -> dict[str, Tunable]:
    """Return the tunable ``window`` with this default."""
    meaning = "messages that a rank has in flight at once"
    return {"window": Tunable(default, _worth_a_try, meaning)}


def _worth_a_try(size: int) -> list[int]:
    return [w for w in (1, 2, 4, 8, 16, 32, 64) if w < max(2, size)]
