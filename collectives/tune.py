"""Measure a machine: the model of each executor, and which way is best for each collective.

For each collective and placement of the buffers the ways to do it are narrowed down by the model
just fitted, and each of those left is timed a few times at each length. Those that were then near
the best are timed again, in turns, for as long as the budget allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from math import isqrt

import numpy as np
from mpi4py import MPI

from collectives.bench.pin import pin
from collectives.bench.room import ask_room
from collectives.bench.run import library, silent
from collectives.collective import BARRIER, COLLECTIVES, Collective
from collectives.executors.native import numba_is_there
from collectives.fit import Fit
from collectives.machine import machine
from collectives.measure_model import measure_models
from collectives.regret import Regret, regrets
from collectives.select import choose, predicted, variants
from collectives.table import EXECUTORS, PLACEMENTS, Section, Table, Way, breakpoints_of
from collectives.trials import AT_ONCE, Timer, Trial
from collectives.units import model_text

SIZES = (8, 64, 512, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
"""Lengths of the buffer of a rank in bytes."""

LIMIT = 1.15
"""A choice is to be no more than so many times slower than the best."""

SHARED = Way("direct", "shared")
"""The shared executor has one way of its own for each collective."""

_TRIED = {"native": 8, "python": 4}  # at most so many ways of an executor at each length
_PLAIN = 1.5  # so many times slower by the model: tried all the same where no tunable is set
_HOPELESS = 4.0  # so many times slower than the best by the model: not tried
_NEAR = 1.4  # so many times slower than the best at first sight: not timed again
_MODEL, _FIRST = 0.1, 0.4  # of the budget: for the model; for the first sight, of what is left

_SHORT = 0.1  # seconds of the budget for a length, from which on a few runs of each way fit

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure.

    Attributes:
        collectives: which ones.
        sizes: lengths of the buffer of a rank in bytes, ascending.
        executors: of `collectives.table.EXECUTORS`; None: all that can be had.
        placements: of `collectives.table.PLACEMENTS`; None: all that can be had.
        dtype: of the elements.
        budget: seconds for all, more or less.
    """

    collectives: tuple[Collective, ...] = tuple(COLLECTIVES.values())
    sizes: tuple[int, ...] = SIZES
    executors: tuple[str, ...] | None = None
    placements: tuple[str, ...] | None = None
    dtype: str = "float32"
    budget: float = 120.0


def tune(comm: MPI.Comm, wanted: Wanted, report: Report = print) -> Table:
    """Measure. Collective; all ranks get the same table.

    Args:
        comm: at least 2 ranks.
        wanted: what.
        report: takes a line after each step; called at rank 0 only.

    Raises:
        ValueError: there is only one rank, or an executor that cannot be had is wanted.
        RoomError: the longest length does not fit in memory.
    """
    say = report if comm.Get_rank() == 0 else silent
    executors, placements = _there(comm, wanted)
    ask_room(comm, max(wanted.sizes), 8 + AT_ONCE)
    say(f"{comm.Get_size()} ranks, {library()}; {pin(comm)}")
    scheduled = [e for e in executors if e in _TRIED]
    fits = measure_models(comm, scheduled, budget=_MODEL * wanted.budget)
    for executor, fit in fits.items():
        say(f"{executor}: {model_text(fit.model)}; residual {100 * fit.residual:.0f} %")
    cases = [
        (c, p)
        for c in wanted.collectives
        for p in (placements if c is not BARRIER else placements[:1])  # it has no buffers
    ]
    lengths = sum(len(_sizes(c, wanted)) for c, _ in cases)
    share = (1 - _MODEL) * wanted.budget / lengths
    if share < _SHORT:
        say(f"{lengths} lengths in all: that takes longer than {wanted.budget:g} s, and is rough")
    sections = []
    for collective, placement in cases:
        sizes = _sizes(collective, wanted)
        ways = candidates(collective, comm.Get_size(), sizes, fits)
        ways += [SHARED] * ("shared" in executors)
        timer = Timer(comm, collective, placement, wanted.dtype, say)
        trials = [t for n in sizes for t in _timed(timer, n, ways, share, say)]
        section = section_of(trials, np.dtype(wanted.dtype).itemsize)
        sections += [section] if section is not None else []
    return Table(machine(), library(), _now(), fits, tuple(sections))


def check(comm: MPI.Comm, table: Table, wanted: Wanted, report: Report = print) -> list[Regret]:
    """Measure how good the choices of a table are, between the lengths it was measured at.

    Collective; all ranks get the same. Sections for other numbers of ranks are left out.

    Args:
        comm: as for `tune`.
        table: what to check.
        wanted: collectives, placements, dtype and budget; sizes are those between the table's.
        report: as for `tune`.

    Raises:
        ValueError: the table has nothing of what is wanted.
    """
    say = report if comm.Get_rank() == 0 else silent
    say(f"{comm.Get_size()} ranks, {library()}; {pin(comm)}")
    names = {c.name for c in wanted.collectives}
    itemsize = np.dtype(wanted.dtype).itemsize
    sections = [
        s
        for s in table.sections
        if s.ranks == comm.Get_size()
        and s.collective in names
        and s.itemsize == itemsize
        and s.placement in (wanted.placements or PLACEMENTS)
    ]
    if not sections:
        raise ValueError(
            f"table: has none of {', '.join(sorted(names))} on {comm.Get_size()} ranks with "
            f"elements of {itemsize} bytes"
        )
    lengths = sum(max(1, len(s.sizes) - 1) for s in sections)
    found = []
    for s in sections:
        timer = Timer(comm, COLLECTIVES[s.collective], s.placement, wanted.dtype, say)
        for n in between(s.sizes, 64 * comm.Get_size()):
            best = min(s.measured(way, n) for way in s.seconds)
            near = [w for w in s.seconds if s.measured(w, n) <= _NEAR * best]
            trials = timer.time(n, near, wanted.budget / lengths, 5, 1000)
            one = regrets(trials, lambda *case, s=s: _pick(table, s.itemsize, *case))
            found += one
            for r in one:
                say(
                    f"{r.collective}, {r.placement}, {r.nbytes} bytes: {r.chosen.algorithm} on "
                    f"{r.chosen.executor}, {r.ratio:.2f} x the best ({r.best.algorithm} on "
                    f"{r.best.executor})"
                )
    return found


def candidates(
    collective: Collective, size: int, sizes: Sequence[int], fits: Mapping[str, Fit]
) -> list[Way]:
    """Return the ways that are worth a try at one of the sizes at least, by their models.

    Of settings that make no difference, as of many with two ranks, the first one stays.
    """
    found: list[Way] = []
    for executor, fit in fits.items():
        prices: dict[tuple[float, ...], str] = {}
        # Plain ones first, so that these stay.
        for spec in sorted(variants(collective, size), key=lambda spec: ":" in spec):
            times = (predicted(collective, spec, size, n, fit.model) for n in sizes)
            prices.setdefault(tuple(times), spec)
        for i in range(len(sizes)):
            ranked = sorted((times[i], spec) for times, spec in prices.items())
            best = ranked[0][0]
            found += [
                Way(spec, executor)
                for place, (t, spec) in enumerate(ranked)
                if (place < _TRIED[executor] and t <= _HOPELESS * best)
                or (t <= _PLAIN * best and ":" not in spec)
            ]
    return list(dict.fromkeys(found))


def section_of(trials: Sequence[Trial], itemsize: int) -> Section | None:
    """Return the section for the trials of one collective and placement, at all its lengths.

    A way that was not timed at each of the lengths is left out. None where no way is left.
    """
    sizes = tuple(sorted({t.bytes for t in trials}))
    times: dict[Way, dict[int, float]] = {}
    for t in trials:
        times.setdefault(Way(t.algorithm, t.executor), {})[t.bytes] = 1e-6 * t.median_us
    seconds = {
        way: tuple(mine[n] for n in sizes) for way, mine in times.items() if len(mine) == len(sizes)
    }
    if not seconds:
        return None
    first = trials[0]
    return Section(
        first.collective,
        first.ranks,
        first.placement,
        itemsize,
        sizes,
        seconds,
        breakpoints_of(sizes, seconds),
    )


def between(sizes: Sequence[int], unit: int) -> list[int]:
    """Return a length between each two sizes, a multiple of ``unit`` where there is one.

    Of a single size, that one.
    """
    if len(sizes) == 1:
        return list(sizes)
    middles = []
    for low, high in pairwise(sizes):
        middle = isqrt(max(1, low) * high)
        rounded = middle // unit * unit
        middles.append(rounded if rounded > low else middle)
    return middles


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _sizes(collective: Collective, wanted: Wanted) -> tuple[int, ...]:
    return wanted.sizes[:1] if collective is BARRIER else wanted.sizes


def _there(comm: MPI.Comm, wanted: Wanted) -> tuple[list[str], list[str]]:
    """Return the executors and the placements to measure, the same on all ranks."""
    compiled = comm.allreduce(numba_is_there(), MPI.LAND)
    one_node = len(set(comm.allgather(MPI.Get_processor_name()))) == 1
    can = {"python": True, "native": compiled, "shared": compiled and one_node}
    for executor in wanted.executors or ():
        if not can[executor]:
            needs = "numba" if not compiled else "all ranks on one node"
            raise ValueError(f"executors: {executor!r} needs {needs}")
    executors = [e for e in wanted.executors or EXECUTORS if can[e]]
    if not set(executors) & set(_TRIED):
        raise ValueError(f"executors={executors}: needs one that runs schedules, native or python")
    if wanted.placements is not None:
        return executors, list(wanted.placements)
    return executors, [p for p in PLACEMENTS if p == "private" or "shared" in executors]


def _timed(
    timer: Timer, nbytes: int, ways: Sequence[Way], budget: float, say: Report
) -> list[Trial]:
    """Time all ways a few times, and then those near the best for longer."""
    found = {
        Way(t.algorithm, t.executor): t for t in timer.time(nbytes, ways, _FIRST * budget, 2, 10)
    }
    ranked = sorted(found, key=lambda way: found[way].median_us)
    near = [w for w in ranked if found[w].median_us <= _NEAR * found[ranked[0]].median_us]
    again = timer.time(nbytes, near[:AT_ONCE], (1 - _FIRST) * budget, 5, 1000)
    found |= {Way(t.algorithm, t.executor): t for t in again}
    if again:
        best = min(again, key=lambda t: t.median_us)
        say(
            f"{best.collective}, {best.placement}, {best.bytes} bytes: {best.algorithm} on "
            f"{best.executor}, {best.median_us:.2f} us, of {len(found)} ways"
        )
    return list(found.values())


def _pick(
    table: Table, itemsize: int, collective: str, ranks: int, placement: str, nbytes: int
) -> Way:
    choice = choose(
        COLLECTIVES[collective],
        ranks,
        nbytes,
        table=table,
        executors=EXECUTORS,
        placement=placement,
        itemsize=itemsize,
    )
    return Way(choice.algorithm, choice.executor)
