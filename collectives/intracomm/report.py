"""Count the calls of a program: where they are made, what they move, how long they take."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from mpi4py import MPI

from collectives.intracomm.counted import Waited


class Site(NamedTuple):
    """A place in a program that calls a collective.

    Attributes:
        file: of the program.
        line: in it.
        call: the method, as ``Allreduce`` or ``Iallreduce``.
    """

    file: str
    line: int
    call: str


class Shape(NamedTuple):
    """What a call has to do, as far as its price depends on it.

    Attributes:
        collective: its name.
        ranks: how many take part.
        nbytes: length of the buffer of a rank (see `collectives.intracomm.length`).
    """

    collective: str
    ranks: int
    nbytes: int


class Way(NamedTuple):
    """What did a call: an algorithm and an executor, or ("library", "")."""

    algorithm: str
    executor: str


@dataclass(slots=True)
class Tally:
    """What was counted at one place, on one rank or on all.

    The first call of each shape makes a plan, and may load or compile code, so it tells nothing
    about the others: it is counted apart.

    Attributes:
        calls: how often.
        nbytes: length of the buffers, all calls together.
        seconds: inside the calls but the first of each shape, and in the waits and tests of their
            requests.
        first_seconds: the same of the first calls.
        ways: what did them -> how often.
        shapes: what was to be done -> how often; None where the arguments could not be read.
        first: what was to be done -> seconds of the first call of it.
        later: what was to be done -> seconds of all other calls of it.
    """

    calls: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    first_seconds: float = 0.0
    ways: Counter[Way] = field(default_factory=Counter)
    shapes: Counter[Shape | None] = field(default_factory=Counter)
    first: dict[Shape | None, float] = field(default_factory=dict)
    later: dict[Shape | None, float] = field(default_factory=dict)

    def add(self, seconds: float, way: Way, shape: Shape | None) -> Waited:
        """Count a call; return what counts the seconds of a wait for it."""
        self.calls += 1
        self.nbytes += 0 if shape is None else shape.nbytes
        self.ways[way] += 1
        self.shapes[shape] += 1
        waited = partial(self._took, shape, self.shapes[shape] == 1)
        waited(seconds)
        return waited

    def _took(self, shape: Shape | None, first: bool, seconds: float) -> None:
        if first:
            self.first_seconds += seconds
            self.first[shape] = self.first.get(shape, 0.0) + seconds
        else:
            self.seconds += seconds
            self.later[shape] = self.later.get(shape, 0.0) + seconds

    def each(self, shape: Shape | None) -> float | None:
        """Seconds of a call of a shape, in the mean of all but the first; None: there was one."""
        others = self.shapes[shape] - 1
        return self.later.get(shape, 0.0) / others if others > 0 else None


class Report:
    """The counts of this rank: `as_intracomm` takes it, and adds to it.

    Attributes:
        sites: what was counted at each place.
    """

    def __init__(self) -> None:
        self.sites: dict[Site, Tally] = {}

    def tally(self) -> Tally:
        """Return the counts of the place that calls: the first frame that is not of this package.

        The method is that of the last frame that is.
        """
        frame = sys._getframe(1)
        call = ""
        while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
            call = frame.f_code.co_name
            frame = frame.f_back
        site = Site(frame.f_code.co_filename, frame.f_lineno, call)
        return self.sites.setdefault(site, Tally())

    def gather(self, comm: MPI.Comm) -> dict[Site, Tally] | None:
        """Return the counts of all ranks, at rank 0; None on the others. Collective.

        Calls, bytes and seconds are those of the rank that has most of each; shapes are those of
        the rank that has most bytes, as only the root of a Gatherv knows how long it is.
        """
        found = comm.gather(self.sites)
        return None if found is None else merged(found)


def _is_ours(module: str) -> bool:
    return module.startswith("collectives.intracomm")


def merged(found: Sequence[dict[Site, Tally]]) -> dict[Site, Tally]:
    """Join the counts of several ranks, as `Report.gather` does."""
    every: dict[Site, list[Tally]] = {}
    for sites in found:
        for site, tally in sites.items():
            every.setdefault(site, []).append(tally)
    return {site: _joined(tallies) for site, tallies in every.items()}


def _joined(tallies: Sequence[Tally]) -> Tally:
    longest = max(tallies, key=lambda tally: tally.nbytes)
    total = Tally(nbytes=longest.nbytes, shapes=longest.shapes)
    for tally in tallies:
        total.calls = max(total.calls, tally.calls)
        total.seconds = max(total.seconds, tally.seconds)
        total.first_seconds = max(total.first_seconds, tally.first_seconds)
        total.ways |= tally.ways
        for shape in longest.shapes:
            for all_of_them, mine in ((total.first, tally.first), (total.later, tally.later)):
                all_of_them[shape] = max(all_of_them.get(shape, 0.0), mine.get(shape, 0.0))
    return total
