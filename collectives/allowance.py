"""What to time in a given time: how many lengths, and how many ways.

Ways have to be made, and their results checked, before they can be timed; of long buffers that
takes longer than the timing. What it takes is learnt as it goes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mpi4py import MPI

from collectives.trials import AT_ONCE

_BASE, _PER_BYTE = 6e-3, 8e-9  # seconds to make and to check a way, where nothing is known yet
_PART = 0.6  # of the time, at most, for making and checking
_BLIP = 4.0
_LEAST_LENGTHS, _LEAST_WAYS = 3, 3


class Clock:
    """Tells all ranks alike how much time is left. Collective.

    Args:
        comm: all its ranks.
        budget: seconds from now on.
    """

    def __init__(self, comm: MPI.Comm, budget: float) -> None:
        self._comm = comm
        self._end = time.perf_counter() + budget

    def left(self) -> float:
        """Return the seconds that are left at rank 0; negative once they are over."""
        left: float = self._comm.bcast(self._end - time.perf_counter())
        return left


@dataclass(frozen=True, slots=True)
class Share:
    """What to time of one collective.

    Attributes:
        sizes: the lengths in bytes, ascending.
        ways: so many at each of them.
    """

    sizes: tuple[int, ...]
    ways: int


class Costs:
    """What it takes to make and to check ways, as seen so far."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}  # bytes to seconds of a way

    def of(self, nbytes: int, ways: int) -> float:
        """Return the seconds that so many ways take at a length, without the repetitions."""
        return _made(ways) * self._of_one(nbytes)

    def learn(self, nbytes: int, ways: int, seconds: float) -> None:
        """Take note of what so many ways took."""
        # Half of what is new: other programs may have held it up.
        mean = (self._of_one(nbytes) + max(0.0, seconds) / _made(ways)) / 2
        self._known[nbytes] = mean

    def share(self, sizes: Sequence[int], ways: int, seconds: float) -> Share | None:
        """Return what can be timed in a time; None where that is next to nothing.

        Ways are given up before lengths, down to as many as take turns at once; then both.
        """
        n = len(sizes)
        at_once = min(ways, AT_ONCE)
        few = min(ways, AT_ONCE // 2)
        ends = min(n, _LEAST_LENGTHS)
        half, third = max(ends, -(-n // 2)), max(ends, -(-n // 3))
        options = ((n, ways), (n, at_once), (half, at_once), (half, few), (third, few))
        shares = [Share(thinned(sizes, m), k) for m, k in options]
        for share in (*shares, self.least(sizes, ways)):
            if self.sum(share) <= _PART * seconds:
                return share
        return None

    def least(self, sizes: Sequence[int], ways: int) -> Share:
        """Return the least that makes a section: three lengths and three ways."""
        return Share(thinned(sizes, _LEAST_LENGTHS), min(ways, _LEAST_WAYS))

    def sum(self, share: Share) -> float:
        """Return the seconds that all of it takes, without the repetitions."""
        return sum(self.of(nbytes, share.ways) for nbytes in share.sizes)

    def _of_one(self, nbytes: int) -> float:
        if nbytes in self._known:
            return self._known[nbytes]
        expected = _BASE + _PER_BYTE * nbytes
        nearest = min(self._known, key=lambda n: abs(n - nbytes), default=None)
        if nearest is None:
            return expected
        ratio = self._known[nearest] / (_BASE + _PER_BYTE * nearest)
        return expected * min(ratio, _BLIP)  # one that was held up says little of others


def _made(ways: int) -> int:
    """Return how many are made in all: those near the best of many twice. Buffers count as one."""
    return ways + 1 + (AT_ONCE if ways > AT_ONCE else 0)


def thinned(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return so many of the sizes, evenly, with the first and the last one.

    Args:
        sizes: ascending.
        count: at least 1; of one the first is returned.
    """
    last = len(sizes) - 1
    if count >= len(sizes):
        return tuple(sizes)
    return tuple(sizes[round(i * last / max(1, count - 1))] for i in range(count))
