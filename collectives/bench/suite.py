"""The standard suite: an allreduce with each executor, at fixed lengths, against fixed limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from collectives.units import bytes_text

_IN_WINDOW = Label(AUTO, SHARED, WINDOW, IN_PLACE)
_BY_ITSELF = Label(AUTO, AUTO, PRIVATE, IN_PLACE)
_COPIED = Label(AUTO, SHARED, PRIVATE, IN_PLACE)
_MESSAGES = tuple(Label(a, NATIVE, PRIVATE, IN_PLACE) for a in limits.ALGORITHMS)
_VERDICT, _NOTE = 22, 34  # characters
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
    # Memory that is given back stays in the heap, up to some length. There it would spare a
    # library that takes scratch memory in each call its page faults, so the longest come first:
    # what is found at a length does not depend on which others were asked for.
    for nbytes in sorted(chosen.sizes, reverse=True):
        for length, timings in _time(comm, chosen, nbytes, say):
            say(table(ALLREDUCE, ranks, length.nbytes, timings, overlap=False))
            found += rows(chosen, library(), ranks, length.nbytes, timings)
            results.append(length)
    found.sort(key=lambda row: row.bytes)  # stable: what is of one length stays in order
    results.sort(key=lambda length: length.nbytes)
    say(_summary(ranks, results))
    checks = [check for length in results for check in length.checks(ranks)]
    return found, checks


@dataclass(frozen=True, slots=True)
class _Length:
    """What was found at one length.

    Attributes:
        nbytes: the length.
        calls: that were timed as one.
        native: seconds of the faster of the library's calls.
        ours: timings by what was asked for.
        floor: that of the floor, where it was measured.
    """

    nbytes: int
    calls: int
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
        return [
            self._check("window", _IN_WINDOW, limit.window + more),
            self._check("private", _BY_ITSELF, limit.private + more),
            self._check("messages", self.messages(), limit.messages + more),
        ]

    def checks(self, ranks: int) -> list[Check]:
        """Return all figures with their limits."""
        found = self.columns(ranks)
        private = [t for label, t in self.ours.items() if label.placement == PRIVATE]
        for what, label, timings in (
            ("auto", _BY_ITSELF, private),
            ("auto, messages", _MESSAGES[0], self._sent()),
        ):
            auto = self.ours.get(label)
            if auto is not None:
                # What it chose may have been timed twice: under its own name too.
                asked = (auto.label.chosen, auto.label.executor)
                same = [t for t in timings if (t.label.chosen, t.label.executor) == asked]
                best = min(t.median for t in timings)
                least = min(same, key=lambda t: t.median)
                found.append(self._check(what, least, limits.CHOICE, best))
        if self.floor is not None:
            found.append(self._check("floor", _IN_WINDOW, limits.FLOOR, self.floor.median))
        return found

    def _check(
        self, what: str, ours: Timing | Label | None, limit: float, base: float | None = None
    ) -> Check:
        what += f" {bytes_text(self.nbytes)}" + (f" x{self.calls}" if self.calls > 1 else "")
        timing = self.ours.get(ours) if isinstance(ours, Label) else ours
        if timing is None:
            return Check(what, None, limit)
        label = timing.label
        note = label.name if label.executor == NATIVE else f"{label.executor} {label.name}"
        return Check(what, timing.median / (base or self.native), limit, note=note)


def _time(
    comm: MPI.Comm, chosen: Settings, nbytes: int, say: Report
) -> Iterator[tuple[_Length, list[Timing]]]:
    """Time all at a length, in one way or in two."""
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
    twice = chosen.batch == 1 and nbytes < limits.SHORT
    for calls in (1, limits.BATCH) if twice else (chosen.batch,):
        timings = measure(comm, chosen, ways.variants, calls=calls, part=0.5 if twice else 1.0)
        native = native_seconds(timings, timings[0])
        assert native is not None
        ours = {label: timings[i] for label, i in where.items()}
        yield _Length(ways.nbytes, calls, native, ours, timings[-1] if floor else None), timings
    ways.close()
    if floor is not None:
        floor.close()


def _summary(ranks: int, results: Sequence[_Length]) -> str:
    more = f"; limits for 2 ranks + {limits.MORE_RANKS:g}" if ranks > 2 else ""
    head = f"{'bytes':>10}{'calls':>7}{'library us':>13}  {limits.COLUMNS[0]:{_VERDICT}}" + "".join(
        f"{name:{_VERDICT + _NOTE}}" for name in limits.COLUMNS[1:]
    )
    lines = [
        "",
        "# time over that of the faster of the library's two calls, and its limit" + more,
        "# window: the data lie in the window that the ranks share; private: in their own memory, "
        "auto; messages: native executor, the best of its algorithms",
        f"# calls: in a row that are timed as one; below {limits.SHORT >> 10} KiB both ways count",
        head.rstrip(),
    ]
    for length in results:
        cells = [f"{length.nbytes:>10}{length.calls:>7}{1e6 * length.native:>13.2f}  "]
        for i, check in enumerate(length.columns(ranks)):
            cells.append(f"{check.verdict:{_VERDICT}}")
            if i:
                cells.append(f"{check.note:{_NOTE}}")
        lines.append("".join(cells).rstrip())
    lines += [
        "",
        "# auto: what it takes over the best of what was timed in private memory (messages: of the "
        "native executor)",
        "# floor: the data in the window, over what the memory alone takes to read all vectors and "
        "to write the sum to all places",
    ]
    return "\n".join(lines)
