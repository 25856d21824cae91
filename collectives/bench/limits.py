"""What this library holds itself to, and whether it does: the standard suite, as data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from collectives import collective
from collectives.bench.settings import AUTO, NATIVE, PRIVATE, SHARED, WINDOW, Settings


@dataclass(frozen=True, slots=True)
class Limits:
    """Of an allreduce of one length: its time over that of the faster of the library's two calls.

    Attributes:
        window: the data lie in the shared window of the node.
        private: the data lie in the ranks' own memory, and the choice is the library's.
        messages: the native executor, which sends messages.
    """

    window: float
    private: float
    messages: float


ALLREDUCE = {
    8: Limits(0.85, 1.0, 1.1),
    1 << 10: Limits(0.85, 1.0, 1.1),
    1 << 16: Limits(0.45, 1.0, 1.1),
    1 << 20: Limits(0.40, 1.0, 1.0),
    1 << 24: Limits(0.45, 1.0, 0.95),
    1 << 26: Limits(0.30, 0.7, 0.5),
}
"""By bytes, for two ranks."""

ALGORITHMS = (AUTO, "recursive_doubling", "rabenseifner", "ring", "ring:segments=4")
"""What the native executor is timed with."""

BUDGET = 12.0
"""Seconds for each length, where nobody says."""

SHORT = 1 << 16
BATCH = 10
"""Shorter data are timed twice: call by call, where a good part of the time is that the ranks do
not leave the barrier before at the same moment, and so many calls at a time."""

MORE_RANKS = 0.15
"""What more than two ranks may take on top."""

FLOOR_BYTES = 1 << 26
FLOOR = 1.25
"""Of the longest data in the window: over the floor of `collectives.bench.floor`."""

CHOICE = 1.15
"""What "auto" takes: over the best of what was timed."""

IMPORT_SECONDS = 0.25
FIRST_CALL_SECONDS = 1.0
SIMULATE_SECONDS = 10.0
SIMULATE_ERROR = 0.01


def settings(sizes: Sequence[int] | None = None, **other: Any) -> Settings:
    """Return what the suite times.

    Args:
        sizes: some of its lengths, or others; None: all of them.
        **other: what of the settings is to be different.
    """
    standard = Settings(
        collective.ALLREDUCE,
        ALGORITHMS,
        tuple(ALLREDUCE if sizes is None else sizes),
        executors=(NATIVE, SHARED),
        placements=(PRIVATE, WINDOW),
        budget=BUDGET,
    )
    return replace(standard, **other)


COLUMNS = ("window", "private", "messages")
"""The columns of the table: their figures have names that begin so."""


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and its limit.

    Attributes:
        what: in a few words.
        value: the figure; None: it could not be had.
        limit: the most that it may be.
        unit: behind both.
        note: what to add.
    """

    what: str
    value: float | None
    limit: float
    unit: str = ""
    note: str = ""

    @property
    def held(self) -> bool:
        """Whether the figure is within its limit."""
        return self.value is not None and self.value <= self.limit

    @property
    def verdict(self) -> str:
        """The figure, the limit, and PASS or MISS."""
        value = "none" if self.value is None else f"{self.value:.3g}{self.unit}"
        return f"{value} <= {self.limit:g}{self.unit} {'PASS' if self.held else 'MISS'}"

    def __str__(self) -> str:
        return f"{self.what}: {self.verdict}" + (f" ({self.note})" if self.note else "")


def dump(checks: Iterable[Check]) -> str:
    """Return the checks as text that `load` reads."""
    return json.dumps([asdict(c) for c in checks])


def load(text: str) -> list[Check]:
    """Return the checks of `dump`."""
    return [Check(**fields) for fields in json.loads(text)]


def closing(checks: Sequence[Check], facts: Sequence[Check] | None) -> str:
    """Return the last lines of the suite: what its table does not show, and the total.

    Args:
        checks: all figures of the suite.
        facts: what was found out about whole processes; None: nothing.
    """
    found = [*checks, *(facts or ())]
    lines = ["", *(str(c) for c in found if not c.what.startswith(COLUMNS))]
    if facts is None:
        lines.append("import, first call and simulation: not measured, as a launcher was at work")
    missed = [c.what for c in found if not c.held]
    held = f"{len(found) - len(missed)} of {len(found)} limits held"
    return "\n".join([*lines, f"{held}; missed: {'; '.join(missed)}" if missed else held])
