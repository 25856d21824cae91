"""Count the calls of a program: where they are made, what they move, how long they take."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from mpi4py import MPI


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
        nbytes: length of the buffer of a rank.
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

    Attributes:
        calls: how often.
        nbytes: length of the buffers, all calls together.
        seconds: inside the calls, and in the waits of our own requests for them.
        firsts: how many of the calls were the first of their kind here: such a call makes a plan,
            and may compile code, so it tells nothing about the others.
        later: seconds of all calls but those.
        ways: what did them -> how often.
        shapes: what was to be done -> how often; where the library did it that is not known.
    """

    calls: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    firsts: int = 0
    later: float = 0.0
    ways: Counter[Way] = field(default_factory=Counter)
    shapes: Counter[Shape] = field(default_factory=Counter)

    def add(self, seconds: float, way: Way, shape: Shape | None) -> None:
        """Count a call."""
        first = self.shapes[shape] == 0 if shape is not None else self.calls == 0
        self.calls += 1
        self.firsts += first
        self.seconds += seconds
        self.later += 0.0 if first else seconds
        self.ways[way] += 1
        if shape is not None:
            self.nbytes += shape.nbytes
            self.shapes[shape] += 1

    def wait(self, seconds: float) -> None:
        """Count what the last call took until it was waited for."""
        self.seconds += seconds
        self.later += seconds if self.calls > self.firsts else 0.0

    @property
    def each(self) -> float | None:
        """Seconds of a call, in the mean of all but the first ones; None where there are none."""
        others = self.calls - self.firsts
        return self.later / others if others > 0 else None


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

        Calls, bytes and seconds are those of the rank that has most of each.
        """
        found = comm.gather(self.sites)
        return None if found is None else merged(found)


def _is_ours(module: str) -> bool:
    return module.startswith("collectives.intracomm")


def merged(found: Iterable[dict[Site, Tally]]) -> dict[Site, Tally]:
    """Join the counts of several ranks: of each number the largest."""
    all_ranks: dict[Site, Tally] = {}
    for sites in found:
        for site, tally in sites.items():
            total = all_ranks.setdefault(site, Tally())
            total.calls = max(total.calls, tally.calls)
            total.nbytes = max(total.nbytes, tally.nbytes)
            total.seconds = max(total.seconds, tally.seconds)
            total.firsts = max(total.firsts, tally.firsts)
            total.later = max(total.later, tally.later)
            total.ways |= tally.ways
            total.shapes |= tally.shapes
    return all_ranks
