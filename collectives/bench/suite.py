"""The standard suite: an allreduce with each executor, at fixed lengths, against fixed limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpi4py import MPI

from collectives.bench import limits
from collectives.bench.floor import Floor
from collectives.bench.limits import Check
from collectives.bench.measure import Timing, measure
from collectives.bench.room import ask_room
from collectives.bench.row import Row
from collectives.bench.run import Report, about, about_machine, library, silent
from collectives.bench.settings import (
    AUTO,
    IN_PLACE,
    NATIVE,
    PRIVATE,
    SHARED,
    WINDOW,
    Settings,
)
from collectives.bench.table import heading, native_seconds, rows, table
from collectives.bench.variant import MEMORY, Label, Variant
from collectives.bench.ways import Builder
from collectives.collective import ALLREDUCE
from collectives.commands.arguments import bytes_text

_IN_WINDOW = Label(AUTO, SHARED, WINDOW, IN_PLACE)
_BY_ITSELF = Label(AUTO, AUTO, PRIVATE, IN_PLACE)
_COPIED = Label(AUTO, SHARED, PRIVATE, IN_PLACE)
_MESSAGES = tuple(Label(a, NATIVE, PRIVATE, IN_PLACE) for a in limits.ALGORITHMS)
_VERDICT, _NOTE = 22, 28  # characters
_ASKED = (_IN_WINDOW, _BY_ITSELF, _COPIED, *_MESSAGES)


def run_suite(
    comm: MPI.Comm, chosen: Settings, report: Report = print
) -> tuple[list[Row], list[Check]]:
    """Time the suite. Collective; all ranks get the same.

    Args:
        comm: all its ranks take part.
        chosen: what `collectives.bench.limits.settings` returns.
        report: takes the lines of the tables as they come; called at rank 0 only.

    Returns:
        the rows, and each figure with its limit.

    Raises:
        RoomError: the longest length does not fit in memory.
    """
    ask_room(comm, max(chosen.sizes), 8 + len(_ASKED))
    say = report if comm.Get_rank() == 0 else silent
    ranks = comm.Get_size()
    say(about_machine(comm))
    say(about(chosen))
    say(heading(overlap=False))
    found: list[Row] = []
    results: list[_Length] = []
    for nbytes in chosen.sizes:
        length, timings = _time(comm, chosen, nbytes, say)
        say(table(ALLREDUCE, ranks, length.nbytes, timings, overlap=False))
        found += rows(chosen, library(), ranks, length.nbytes, timings)
        results.append(length)
    say(_summary(ranks, results))
    checks = [check for length in results for check in length.checks(ranks)]
    return found, checks


@dataclass(frozen=True, slots=True)
class _Length:
    """What was found at one length.

    Attributes:
        nbytes: the length.
        native: seconds of the faster of the library's calls.
        ours: timings by what was asked for.
        floor: that of the floor, where it was measured.
    """

    nbytes: int
    native: float
    ours: Mapping[Label, Timing]
    floor: Timing | None

    def messages(self) -> Timing | None:
        """Return the fastest that sends messages."""
        return min(self._sent(), key=lambda t: t.median, default=None)

    def _sent(self) -> list[Timing]:
        return [self.ours[label] for label in _MESSAGES if label in self.ours]

    def columns(self, ranks: int) -> list[Check]:
        """Return the three figures of the table, at those lengths that have limits."""
        limit = limits.ALLREDUCE.get(self.nbytes)
        if limit is None:
            return []
        more = limits.MORE_RANKS if ranks > 2 else 0.0
        size = bytes_text(self.nbytes)
        return [
            _check(f"window {size}", self.ours.get(_IN_WINDOW), self.native, limit.window + more),
            _check(f"private {size}", self.ours.get(_BY_ITSELF), self.native, limit.private + more),
            _check(f"messages {size}", self.messages(), self.native, limit.messages + more),
        ]

    def checks(self, ranks: int) -> list[Check]:
        """Return all figures with their limits."""
        found = self.columns(ranks)
        size = bytes_text(self.nbytes)
        best, auto = self.messages(), self.ours.get(_MESSAGES[0])
        if best is not None and auto is not None:
            # What it chose may have been timed twice: under its own name too.
            same = [t for t in self._sent() if t.label.chosen == auto.label.chosen]
            least = min(same, key=lambda t: t.median)
            found.append(_check(f"auto {size}", least, best.median, limits.CHOICE))
        if self.floor is not None:
            window = self.ours.get(_IN_WINDOW)
            found.append(_check(f"floor {size}", window, self.floor.median, limits.FLOOR))
        return found


def _check(what: str, timing: Timing | None, base: float, limit: float) -> Check:
    if timing is None:
        return Check(what, None, limit)
    label = timing.label
    note = label.name if label.executor == NATIVE else f"{label.executor} {label.name}"
    return Check(what, timing.median / base, limit, note=note)


def _time(
    comm: MPI.Comm, chosen: Settings, nbytes: int, say: Report
) -> tuple[_Length, list[Timing]]:
    builder = Builder(comm, chosen, nbytes, say)
    builder.add_library()
    ways = builder.ways
    where: dict[Label, int] = {}
    for label in _ASKED:
        reason = builder.add(label)
        if reason:
            say(f"# left out: {label.text}: {reason}")
        else:
            where[label] = len(ways.variants) - 1
    floor = None
    if nbytes == limits.FLOOR_BYTES and builder.one_node:
        floor = Floor(comm, nbytes)
        label = Label(f"floor ({floor.kernel})", MEMORY, WINDOW, IN_PLACE)
        ways.variants.append(Variant(label, floor.reset, floor.reset, floor.move, lambda: 0))
    timings = measure(comm, chosen, ways.variants, calls=chosen.calls(nbytes))
    ways.close()
    if floor is not None:
        floor.close()
    native = native_seconds(timings, timings[0])
    assert native is not None
    ours = {label: timings[i] for label, i in where.items()}
    return _Length(ways.nbytes, native, ours, timings[-1] if floor is not None else None), timings


def _summary(ranks: int, results: Sequence[_Length]) -> str:
    more = f"; limits for 2 ranks + {limits.MORE_RANKS:g}" if ranks > 2 else ""
    head = f"{'bytes':>10}{'library us':>13}  {limits.COLUMNS[0]:{_VERDICT}}" + "".join(
        f"{name:{_VERDICT + _NOTE}}" for name in limits.COLUMNS[1:]
    )
    lines = [
        "",
        "# time over that of the faster of the library's two calls, and its limit" + more,
        "# window: the data lie in the window that the ranks share; private: in their own memory, "
        "auto; messages: native executor, the best of its algorithms",
        head.rstrip(),
    ]
    for length in results:
        cells = [f"{length.nbytes:>10}{1e6 * length.native:>13.2f}  "]
        for i, check in enumerate(length.columns(ranks)):
            cells.append(f"{check.verdict:{_VERDICT}}")
            if i:
                cells.append(f"{check.note:{_NOTE}}")
        lines.append("".join(cells).rstrip())
    return "\n".join(lines)
