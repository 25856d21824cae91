"""Time some ways to do a collective at one length, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from collectives.bench.measure import measure
from collectives.bench.settings import IN_PLACE, OUT_OF_PLACE, Settings
from collectives.bench.variant import Label
from collectives.bench.ways import Builder
from collectives.collective import Collective
from collectives.table import Way

AT_ONCE = 8
"""So many plans at most are in memory at a time."""

_OUT_OF_PLACE = ("alltoall", "gather", "scatter")  # the others work in place


@dataclass(frozen=True, slots=True)
class Trial:
    """A way, timed.

    Attributes:
        collective: its name.
        algorithm: as the registry takes it.
        executor: what ran it.
        placement: where the buffers were.
        ranks: how many.
        bytes: length of the buffer of a rank.
        median_us: what it took, in microseconds, on the slowest rank.
    """

    collective: str
    algorithm: str
    executor: str
    placement: str
    ranks: int
    bytes: int
    median_us: float


class Timer:
    """Times ways to do one collective. Collective.

    Args:
        comm: all its ranks take part.
        collective: what to do.
        placement: where the buffers lie.
        dtype: of the elements.
        note: told of each way that is left out, and why.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        collective: Collective,
        placement: str,
        dtype: str,
        note: Callable[[str], object],
    ) -> None:
        self._comm, self._collective, self._placement = comm, collective, placement
        self._dtype = dtype
        self._told: set[str] = set()
        self._note = note
        self._mode = OUT_OF_PLACE if collective.name in _OUT_OF_PLACE else IN_PLACE

    def time(
        self, nbytes: int, ways: Sequence[Way], budget: float, least: int, most: int
    ) -> list[Trial]:
        """Time ways at one length. Those that cannot be had are left out.

        Args:
            nbytes: length of the buffer of a rank; rounded up as the collective needs it.
            ways: at most `AT_ONCE` of them take turns; the next ones follow.
            budget: seconds for all.
            least: repetitions of each at least.
            most: and at most.
        """
        groups = [ways[i : i + AT_ONCE] for i in range(0, len(ways), AT_ONCE)]
        settings = Settings(
            self._collective,
            None,
            (nbytes,),
            placements=(self._placement,),
            dtype=self._dtype,
            budget=budget / max(1, len(groups)),
            least=least,
            most=most,
        )
        return [trial for group in groups for trial in self._group(settings, group)]

    def _group(self, settings: Settings, ways: Sequence[Way]) -> list[Trial]:
        builder = Builder(self._comm, settings, settings.sizes[0], self._tell)
        there = []
        for way in ways:
            reason = builder.add(Label(*way, self._placement, self._mode))
            if reason:
                self._tell(f"left out: {way.algorithm} on {way.executor}: {reason}")
            else:
                there.append(way)
        length = builder.ways.nbytes
        timings = []
        if there:
            timings = measure(self._comm, settings, builder.ways.variants)
        builder.ways.close()
        found = []
        for way, timing in zip(there, timings, strict=True):
            if timing.wrong:
                self._tell(f"left out: {way.algorithm} on {way.executor}: its results are wrong")
                continue
            us = 1e6 * timing.median
            ranks = self._comm.Get_size()
            found.append(Trial(self._collective.name, *way, self._placement, ranks, length, us))
        return found

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)
