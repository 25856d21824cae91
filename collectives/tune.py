"""Measure a machine: the model of each executor, and which way is best for each collective.

For each collective and placement of the buffers the ways to do it are narrowed down by the model
just fitted, and further as the budget asks for it. Those left are timed at each length in turns,
beside what "auto" takes without a table. Where there are too many for that, they are timed a few
times first, and the slow ones go.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TypeAlias

import numpy as np
from mpi4py import MPI

from collectives.allowance import Clock, Costs, Share
from collectives.bench.pin import has_own_cores, pin
from collectives.bench.room import ask_room
from collectives.bench.row import DISTURBED
from collectives.bench.run import library, silent
from collectives.candidates import SHARED, TRIED, candidates
from collectives.collective import BARRIER, COLLECTIVES, Collective
from collectives.executors.native import numba_is_there
from collectives.fit import Fit
from collectives.machine import machine
from collectives.measure_model import SIZES as MESSAGES
from collectives.measure_model import measure_models
from collectives.measured import Length, section_of, time_length
from collectives.select import choose, variants
from collectives.table import EXECUTORS, PLACEMENTS, Section, Table, Way
from collectives.trials import AT_ONCE, Timer
from collectives.tune_text import case_text, not_quiet, section_text
from collectives.units import model_text

SIZES = (8, 64, 512, *(4096 << k for k in range(8)), 1 << 20, 1 << 22, 1 << 24)
"""Lengths of the buffer of a rank in bytes: closest where libraries go from one protocol to the
next, from 4 to 512 KiB. With steps of four there, choices in between were up to 1.9 times slower
than the best."""

POOR = 0.5
"""A model whose residual is greater says nothing, and is left out of the table."""

_MODEL = 0.1  # of the budget: for the model
_OVER = 0.1  # of the budget: by so much it is exceeded rather than that a section is left out
_BRIEF = 30.0  # seconds of the budget: with less, the model is fitted to fewer lengths

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
        budget: seconds for all, about.
    """

    collectives: tuple[Collective, ...] = tuple(COLLECTIVES.values())
    sizes: tuple[int, ...] = SIZES
    executors: tuple[str, ...] | None = None
    placements: tuple[str, ...] | None = None
    dtype: str = "float32"
    budget: float = 120.0


class WantedError(ValueError):
    """What is wanted cannot be measured here."""

    plain = True


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is.

    Attributes:
        title: of the section.
        section: its number, from 1 on.
        sections: how many there are.
        length: so many of its lengths are done.
        lengths: of so many.
        left: seconds of the budget that are left.
    """

    title: str
    section: int
    sections: int
    length: int
    lengths: int
    left: float


def tune(
    comm: MPI.Comm,
    wanted: Wanted,
    report: Report = print,
    progress: Callable[[Progress], object] | None = None,
) -> Table:
    """Measure. Collective; all ranks get the same table.

    Sections for which the time was too short, or the machine too busy, are left out.

    Args:
        comm: at least 2 ranks.
        wanted: what.
        report: takes a line after each step; called at rank 0 only.
        progress: told after each length; called at rank 0 only.

    Raises:
        WantedError: there is only one rank, or an executor that cannot be had is wanted.
        RoomError: the longest length does not fit in memory.
    """
    if comm.Get_size() < 2:
        raise WantedError("comm: has 1 rank; a message needs 2")
    say = report if comm.Get_rank() == 0 else silent
    executors, placements = _there(comm, wanted)
    ask_room(comm, max(wanted.sizes), 8 + AT_ONCE)
    say(f"{comm.Get_size()} ranks, {library()}; {pin(comm)}")
    with _collected():
        _start(comm, wanted, executors)
        tuning = _Tuning(comm, wanted, executors, say, progress)
        return tuning.table(placements)


_Case: TypeAlias = "tuple[Collective, str]"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to time for a section.

    Attributes:
        share: how much of it.
        ways: all that are worth it, the best by their models first.
        end: seconds of the budget that are to be left after it.
    """

    share: Share
    ways: tuple[Way, ...]
    end: float


class _Tuning:
    """What all sections have in common."""

    def __init__(
        self,
        comm: MPI.Comm,
        wanted: Wanted,
        executors: Sequence[str],
        say: Report,
        progress: Callable[[Progress], object] | None,
    ) -> None:
        self._comm, self._wanted, self._executors, self._say = comm, wanted, executors, say
        self._progress = progress if comm.Get_rank() == 0 else None
        self._itemsize = np.dtype(wanted.dtype).itemsize
        self._own_cores = has_own_cores(comm)
        self._clock, self._costs = Clock(comm, wanted.budget), Costs()
        self._fits = self._measured_models()
        self._try_costs()
        self._all: dict[_Case, tuple[tuple[int, ...], tuple[Way, ...]]] = {}
        self._disturbed: list[float] = []
        self._busy: list[str] = []

    def table(self, placements: Sequence[str]) -> Table:
        """Measure all sections."""
        cases = [
            (c, p)
            for c in self._wanted.collectives
            for p in (placements if c is not BARRIER else placements[:1])  # it has no buffers
        ]
        found: dict[_Case, Section | None] = {}
        waiting = list(cases)
        while waiting:
            plans = (self._plan(waiting, i) for i in range(len(waiting)))
            i, plan = next(((i, p) for i, p in enumerate(plans) if p is not None), (0, None))
            plan = plan or self._least_plan(waiting[0], first=not found)
            if plan is None:
                break
            case = waiting.pop(i)
            found[case] = self._section(case, plan, len(found) + 1, len(cases))
        self._conclude([section_text(c.name, placement) for c, placement in waiting])
        in_order = (found.get(case) for case in cases)
        sections = tuple(s for s in in_order if s is not None)
        fits = {e: fit for e, fit in self._fits.items() if fit.residual <= POOR}
        return Table(machine(), library(), _now(), fits, sections)

    def _measured_models(self) -> dict[str, Fit]:
        budget = self._wanted.budget
        scheduled = [e for e in self._executors if e in TRIED]
        sizes, least = (MESSAGES, 5) if budget >= _BRIEF else (MESSAGES[::3], 3)
        fits = measure_models(
            self._comm, scheduled, sizes=sizes, budget=_MODEL * budget, least=least
        )
        for executor, fit in fits.items():
            poor = "" if fit.residual <= POOR else ": it does not fit, and is left out of the table"
            residual = f"residual {100 * fit.residual:.0f} %"
            self._say(f"{executor}: {model_text(fit.model)}; {residual}{poor}")
        return fits

    def _try_costs(self) -> None:
        """See how quick the machine is, before the first section is planned by it."""
        nbytes = self._wanted.sizes[0]
        before = self._clock.left()
        _run_once(self._comm, self._wanted.collectives[0], nbytes, self._wanted, self._executors)
        seconds = before - self._clock.left()
        self._costs.learn(nbytes, len(self._executors), seconds)

    def _plan(self, waiting: Sequence[_Case], i: int) -> _Plan | None:
        """Return what to time of one of the cases that wait; None: its part is too short for it."""
        sizes, ways = self._all_of(waiting[i])
        left = self._clock.left()
        # As much of what is left as its lengths are of all lengths that wait.
        part = len(sizes) / sum(len(_sizes(c, self._wanted)) for c, _ in waiting)
        share = self._costs.share(sizes, len(ways), part * left)
        return None if share is None else _Plan(share, ways, (1 - part) * left)

    def _least_plan(self, case: _Case, *, first: bool) -> _Plan | None:
        """Return the least to time of a case, where there is time for that; in any case first."""
        sizes, ways = self._all_of(case)
        left = self._clock.left()
        share = self._costs.least(sizes, len(ways))
        costs = self._costs.sum(share)
        there = left + _OVER * self._wanted.budget
        return _Plan(share, ways, left - costs) if first or costs <= there else None

    def _all_of(self, case: _Case) -> tuple[tuple[int, ...], tuple[Way, ...]]:
        """Return the lengths of a case, and the ways that are worth it."""
        if case not in self._all:
            sizes = _sizes(case[0], self._wanted)
            ways = candidates(case[0], self._comm.Get_size(), sizes, self._fits)
            self._all[case] = sizes, (*[SHARED] * ("shared" in self._executors), *ways)
        return self._all[case]

    def _section(self, case: _Case, plan: _Plan, number: int, of: int) -> Section | None:
        """Measure a section; None where it is left out."""
        collective, placement = case
        title = section_text(collective.name, placement)
        lengths_there = len(_sizes(collective, self._wanted))
        timer = Timer(self._comm, collective, placement, self._wanted.dtype, self._say)
        where = Progress(title, number, of, 0, len(plan.share.sizes), 0.0)
        lengths = self._lengths(timer, plan, where)
        section = section_of(lengths, self._itemsize)
        self._judge(title, lengths, section)
        if section is not None:
            ways_timed = f"of {len(section.seconds)} ways"
            for nbytes in section.sizes:
                way, us = self._choice(section, nbytes)
                text = f"{way.algorithm} on {way.executor}, {us:.2f} us, {ways_timed}"
                self._say(f"{case_text(collective.name, placement, nbytes)}: {text}")
        share = plan.share
        if len(share.sizes) < lengths_there or share.ways < len(plan.ways):
            some = f"{len(share.sizes)} of {lengths_there} lengths"
            self._say(
                f"{title}: {some}, {share.ways} of {len(plan.ways)} ways, as the budget allows"
            )
        return section

    def _lengths(self, timer: Timer, plan: _Plan, where: Progress) -> list[Length]:
        """Time the ways at all lengths."""
        share = plan.share
        own = {n: self._own(timer, n) for n in share.sizes}
        known = [w for w in own.values() if w is not None]
        ways = list(dict.fromkeys([*known, *plan.ways]))[: max(share.ways, len(set(known)))]
        found = []
        for i, nbytes in enumerate(share.sizes):
            left = self._clock.left()
            coming = share.sizes[i:]
            costs = sum(self._costs.of(n, len(ways)) for n in coming)
            budget = max(0.0, left - plan.end - costs) / len(coming) / 1.1  # a tenth more warms up
            length = time_length(
                timer, nbytes, own[nbytes], ways, budget, own_cores=self._own_cores
            )
            found += [length] if length is not None else []
            after = self._clock.left()
            self._costs.learn(nbytes, len(ways), left - after - 1.1 * budget)
            self._tell(replace(where, length=i + 1, left=after))
        return found

    def _own(self, timer: Timer, nbytes: int) -> Way | None:
        """Return what "auto" takes without a table, of the executors that are wanted."""
        way = timer.own(nbytes)
        if way is None or way.executor in self._executors:
            return way
        scheduled = tuple(e for e in self._executors if e in TRIED)
        size = self._comm.Get_size()
        choice = choose(timer.collective, size, nbytes, executors=scheduled)
        return Way(choice.algorithm, choice.executor)

    def _choice(self, section: Section, nbytes: int) -> tuple[Way, float]:
        """Return what the table takes at a length, and its microseconds."""
        choice = choose(
            COLLECTIVES[section.collective],
            section.ranks,
            nbytes,
            table=Table("", "", "", {}, (section,)),
            executors=EXECUTORS,
            placement=section.placement,
            itemsize=section.itemsize,
        )
        return Way(choice.algorithm, choice.executor), 1e6 * choice.seconds

    def _judge(self, title: str, lengths: Sequence[Length], section: Section | None) -> None:
        """Say where other programs were in the way."""
        worst = max((at.disturbed for at in lengths), default=0.0)
        self._disturbed.append(worst)
        if section is None:
            self._busy.append(title)
        if worst <= DISTURBED and section is not None:
            return
        if section is None and all(at.trusted for at in lengths):
            self._say(f"{title}: left out of the table: no way could be timed at all lengths")
            return
        vague = sum(not at.trusted for at in lengths)
        if section is None:
            then = "left out of the table"
        elif vague:
            then = f"at {vague} of {len(lengths)} lengths what auto takes without a table stays"
        else:
            then = "only clear differences count"
        self._say(f"{title}: {not_quiet(worst)}: {then}")

    def _conclude(self, late: Sequence[str]) -> None:
        """Say what the table lacks, and whether to believe it."""
        if late:
            self._say(
                f"--budget {self._wanted.budget:g}s was too short for {len(late)} sections, "
                f"which are left out: {'; '.join(late)}"
            )
        worst = max(self._disturbed, default=0.0)
        if worst > DISTURBED:
            lost = f"; left out of the table: {'; '.join(self._busy)}" if self._busy else ""
            self._say(f"{not_quiet(worst)}{lost}; measure again when it is")

    def _tell(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(progress)


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
            raise WantedError(f"executors: {executor!r} needs {needs}")
    executors = [e for e in wanted.executors or EXECUTORS if can[e]]
    if not set(executors) & set(TRIED):
        raise WantedError(f"executors={executors}: needs one that runs schedules, native or python")
    if wanted.placements is not None:
        return executors, list(wanted.placements)
    return executors, [p for p in PLACEMENTS if p == "private" or "shared" in executors]


@contextmanager
def _collected() -> Iterator[None]:
    """Spare the garbage collector what is there already: it runs before each measurement."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _start(comm: MPI.Comm, wanted: Wanted, executors: Sequence[str]) -> None:
    """Compile what is needed, before the time begins."""
    for collective in wanted.collectives:
        _run_once(comm, collective, 8, wanted, executors)


def _run_once(
    comm: MPI.Comm, collective: Collective, nbytes: int, wanted: Wanted, executors: Sequence[str]
) -> None:
    """Make a way of each executor, check it and run it a few times."""
    ways = [Way(next(variants(collective, comm.Get_size())), e) for e in executors]
    ways = [way if way.executor != "shared" else SHARED for way in ways]
    Timer(comm, collective, "private", wanted.dtype, silent).time(nbytes, ways, 0.0, 5, 5)
