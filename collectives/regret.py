"""How much slower than the best one the chosen way is, by measurements of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from collectives.table import EXECUTORS, Way


class Timed(Protocol):
    """A measurement, as the rows of `collectives.bench` are."""

    @property
    def collective(self) -> str:
        """Its name."""

    @property
    def algorithm(self) -> str:
        """As the registry takes it."""

    @property
    def executor(self) -> str:
        """What ran it."""

    @property
    def placement(self) -> str:
        """Where the buffers were."""

    @property
    def ranks(self) -> int:
        """How many."""

    @property
    def bytes(self) -> int:
        """Length of the buffer of a rank."""

    @property
    def median_us(self) -> float:
        """What it took, in microseconds."""


@dataclass(frozen=True, slots=True)
class Regret:
    """What a choice costs at one length.

    Attributes:
        collective: its name.
        ranks: how many.
        placement: where the buffers were.
        nbytes: length of the buffer of a rank.
        chosen: the way taken.
        best: the fastest one.
        ratio: of their times, 1 or more.
    """

    collective: str
    ranks: int
    placement: str
    nbytes: int
    chosen: Way
    best: Way
    ratio: float


def regrets(rows: Iterable[Timed], pick: Callable[[str, int, str, int], Way]) -> list[Regret]:
    """Compare the choice with the best one, in every case that was measured.

    Args:
        rows: one of each way in each case; those of other executors than ours are left out.
        pick: ``pick(collective, ranks, placement, bytes)`` -> the way that is chosen.

    Raises:
        ValueError: what is chosen was not measured, or a way was twice.
    """
    cases: dict[tuple[str, int, str, int], dict[Way, float]] = {}
    for row in rows:
        if row.executor not in EXECUTORS:
            continue
        case = cases.setdefault((row.collective, row.ranks, row.placement, row.bytes), {})
        way = Way(row.algorithm, row.executor)
        if way in case:
            raise ValueError(f"rows: {way} is there twice for {row.collective}, {row.bytes} bytes")
        case[way] = row.median_us
    found = []
    for (collective, ranks, placement, nbytes), times in cases.items():
        chosen = pick(collective, ranks, placement, nbytes)
        if chosen not in times:
            raise ValueError(
                f"rows: {chosen} is chosen for {collective}, {nbytes} bytes, and was not measured"
            )
        best = min(times, key=lambda way: times[way])
        ratio = times[chosen] / times[best]
        found.append(Regret(collective, ranks, placement, nbytes, chosen, best, ratio))
    return found
