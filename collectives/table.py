"""What a tuner measured on a machine, and which algorithm is best from how many bytes on.

A section of the table is for one collective on one number of ranks, with buffers in one place and
elements of one size. It holds the time of each way that was tried at each length, and breakpoints:
from so many bytes on, take this algorithm on that executor.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from collectives.collective import BARRIER
from collectives.fit import Fit

FORMAT = "collectives tuning table"
VERSION = 1
"""What a file says that it is."""

EXECUTORS = ("native", "python", "shared")
"""What runs schedules."""

PLACEMENTS = ("private", "window")
"""Where buffers lie: in memory of each rank, or in the window that the ranks of a node share."""

WITHIN = 1.03
"""A way that is at most so many times slower than the best stays: so breakpoints are few, and
noise makes none."""

_BETWEEN = 8
_SHORT = 32  # bytes: half of this, as much, or twice as much take the same time


class Way(NamedTuple):
    """How to do a collective.

    Attributes:
        algorithm: as `collectives.registry.Registry.get` takes it.
        executor: of `EXECUTORS`.
    """

    algorithm: str
    executor: str


class Breakpoint(NamedTuple):
    """From so many bytes on, take this way.

    Attributes:
        nbytes: of the buffer of a rank.
        way: what to take.
        seconds: what it took when it was measured, at this length or interpolated.
    """

    nbytes: int
    way: Way
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """The measurements of one collective.

    Attributes:
        collective: its name.
        ranks: how many took part.
        placement: of the buffers: one of `PLACEMENTS`.
        itemsize: bytes of an element.
        sizes: lengths of the buffer of a rank, in bytes, ascending.
        seconds: for each way, what it took at each of the sizes.
        breakpoints: ascending; their ways are among those measured.
    """

    collective: str
    ranks: int
    placement: str
    itemsize: int
    sizes: tuple[int, ...]
    seconds: Mapping[Way, tuple[float, ...]]
    breakpoints: tuple[Breakpoint, ...]

    def best(self, nbytes: int) -> Breakpoint:
        """Return the breakpoint that rules at a length; below the first one, the first."""
        return self.breakpoints[
            max(0, bisect_right(self.breakpoints, nbytes, key=lambda b: b.nbytes) - 1)
        ]

    def covers(self, nbytes: int) -> bool:
        """Return whether it tells something of a length: up to a factor of two beyond its ends.

        What takes a length that is close to nothing is all the same, as is the length of a barrier.
        """
        if self.collective == BARRIER.name:
            return True
        return self.sizes[0] <= 2 * max(nbytes, _SHORT) and nbytes <= 2 * self.sizes[-1]

    def measured(self, way: Way, nbytes: int) -> float:
        """Return the seconds of a way at a length, interpolated; beyond the ends, as at the end.

        Raises:
            KeyError: it was not measured.
        """
        return interpolated(self.sizes, self.seconds[way], nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What was measured on a machine.

    Attributes:
        machine: its processor and system.
        mpi: the MPI library and its version.
        date: when, in ISO 8601.
        fits: the model of each executor, by name.
        sections: the measurements.
    """

    machine: str
    mpi: str
    date: str
    fits: Mapping[str, Fit]
    sections: tuple[Section, ...]

    @staticmethod
    def load(path: str | Path, mpi: str | None = None) -> Table:
        """Read a table from a file.

        Args:
            path: of a file that `save` or ``python -m collectives tune`` wrote.
            mpi: the MPI library that it must have been measured with; None: any.

        Raises:
            TableError: (of `collectives.table_reader`) it cannot be read, is no such table, or was
                measured with another MPI; the message names the file, and the line or the key.
        """
        from collectives.table_reader import read

        return read(path, mpi)

    def save(self, path: str | Path) -> None:
        """Write the table to a file: the whole of it, or nothing.

        Raises:
            OSError: it cannot be written.
        """
        from collectives.table_writer import write

        write(path, self)

    def find(
        self, collective: str, ranks: int, placement: str, itemsize: int, nbytes: int
    ) -> Section | None:
        """Return the section for a call; of several the one whose elements are most alike in size.

        None where that collective was not measured on so many ranks with buffers there, or not
        near that length.
        """
        found = [
            s
            for s in self.sections
            if (s.collective, s.ranks, s.placement) == (collective, ranks, placement)
            and s.covers(nbytes)
        ]
        return min(found, key=lambda s: abs(math.log(s.itemsize / itemsize)), default=None)


def interpolated(sizes: Sequence[int], seconds: Sequence[float], nbytes: int) -> float:
    """Return the time at a length, on straight lines between logarithms; constant beyond the ends.

    Args:
        sizes: in bytes, ascending.
        seconds: at each of them.
        nbytes: the length.
    """
    i = bisect_right(sizes, nbytes)
    if i == 0 or i == len(sizes):
        return seconds[max(0, i - 1)]
    low, high = max(1, sizes[i - 1]), sizes[i]
    part = math.log(max(1, nbytes) / low) / math.log(high / low)
    return float(seconds[i - 1] * (seconds[i] / seconds[i - 1]) ** part)


def breakpoints_of(
    sizes: Sequence[int], seconds: Mapping[Way, Sequence[float]]
) -> tuple[Breakpoint, ...]:
    """Return from where on to take which way, from what was measured.

    At each size, and between sizes as far as interpolation tells, the way taken is at most
    `WITHIN` times slower than the best; there are as few breakpoints as that allows.

    Args:
        sizes: in bytes, ascending, at least one.
        seconds: of each way, at least one, at each of the sizes.
    """
    grid = _refined(sizes)
    times = {
        way: [interpolated(sizes, measured, n) for n in grid] for way, measured in seconds.items()
    }
    best = [min(each) for each in zip(*times.values(), strict=True)]
    found: list[Breakpoint] = []
    start = 0
    while start < len(grid):
        reach = {way: _good_until(start, mine, best) for way, mine in times.items()}
        stop = max(reach.values())
        way = min(
            (w for w, until in reach.items() if until == stop),
            key=lambda w: sum(times[w][i] / best[i] for i in range(start, stop)),
        )
        at = grid[start]
        if found:
            ends = slice(start - 1, start + 1)
            at = _crossing(grid[ends], times[found[-1].way][ends], times[way][ends])
        found.append(Breakpoint(at, way, interpolated(grid, times[way], at)))
        start = stop
    return tuple(found)


def _refined(sizes: Sequence[int]) -> list[int]:
    """Return the sizes with a few more between each two of them."""
    grid = list(sizes[:1])
    for low, high in pairwise(sizes):
        factor = high / max(1, low)
        between = (round(max(1, low) * factor ** (k / _BETWEEN)) for k in range(1, _BETWEEN))
        grid += [n for n in dict.fromkeys(between) if low < n < high] + [high]
    return grid


def _good_until(start: int, times: Sequence[float], best: Sequence[float]) -> int:
    """Return the first place from ``start`` on where a way is too slow."""
    stop = start
    while stop < len(best) and times[stop] <= WITHIN * best[stop]:
        stop += 1
    return stop


def _crossing(sizes: Sequence[int], before: Sequence[float], after: Sequence[float]) -> int:
    """Return from where on ``after`` is the faster way; it is at the second of the two sizes."""
    low, high = max(1, sizes[0]), sizes[1]
    left, right = (math.log(b / a) for a, b in zip(before, after, strict=True))
    if left <= 0:  # it was as fast already
        return sizes[0] + 1
    crossing = math.ceil(low * math.exp(math.log(high / low) * left / (left - right)))
    return min(high, max(sizes[0] + 1, crossing))
