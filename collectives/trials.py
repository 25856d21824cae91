"""Time some ways to do a collective at one length, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.measure import measure
from collectives.bench.settings import AUTO, IN_PLACE, OUT_OF_PLACE, Settings
from collectives.bench.variant import Label
from collectives.bench.ways import Builder
from collectives.collective import Collective
from collectives.table import Way

AT_ONCE = 8
"""So many plans at most are in memory at a time."""

_OUT_OF_PLACE = ("alltoall", "gather", "scatter")  # the others work in place


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A way, timed.

    Attributes:
        collective: its name.
        algorithm: as the registry takes it.
        executor: what ran it.
        placement: where the buffers were.
        ranks: how many.
        bytes: length of the buffer of a rank.
        seconds: float64 (runs,): what each took, on the slowest rank.
        disturbed: the part of the runs, 0 to 1, in which a rank lost its core for a while.
        calm: these runs are left out of the seconds.
    """

    collective: str
    algorithm: str
    executor: str
    placement: str
    ranks: int
    bytes: int
    seconds: npt.NDArray[np.float64]
    disturbed: float = 0.0
    calm: bool = False

    @property
    def way(self) -> Way:
        """Algorithm and executor."""
        return Way(self.algorithm, self.executor)

    @property
    def median(self) -> float:
        """The median in seconds."""
        return float(np.median(self.seconds))

    @property
    def median_us(self) -> float:
        """The median in microseconds."""
        return 1e6 * self.median


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
        self._comm, self.collective, self._placement = comm, collective, placement
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
        each = budget / max(1, len(groups))
        settings = self._settings(nbytes, budget=each, least=least, most=most)
        return [trial for group in groups for trial in self._group(settings, group)]

    def own(self, nbytes: int) -> Way | None:
        """Return what a plan takes where nothing is asked for; None where it cannot be had.

        Args:
            nbytes: as for `time`.
        """
        builder = Builder(self._comm, self._settings(nbytes), nbytes, self._tell)
        reason = builder.add(Label(AUTO, AUTO, self._placement, self._mode))
        builder.ways.close()
        if reason:
            return None
        label = builder.ways.variants[-1].label
        return Way(label.chosen, label.executor)

    def _settings(
        self, nbytes: int, *, budget: float = 0.0, least: int = 1, most: int = 1
    ) -> Settings:
        return Settings(
            self.collective,
            None,
            (nbytes,),
            placements=(self._placement,),
            dtype=self._dtype,
            budget=budget,
            least=least,
            most=most,
        )

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
            found.append(
                Trial(
                    self.collective.name,
                    *way,
                    self._placement,
                    self._comm.Get_size(),
                    length,
                    timing.seconds,
                    timing.disturbed,
                    timing.calm,
                )
            )
        return found

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)
