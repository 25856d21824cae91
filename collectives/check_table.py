"""Measure how good the choices of a tuning table are, between the lengths it was measured at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import isqrt

import numpy as np
from mpi4py import MPI

from collectives.bench.pin import has_own_cores, pin
from collectives.bench.row import DISTURBED
from collectives.bench.run import library, silent
from collectives.collective import COLLECTIVES
from collectives.measured import NEAR
from collectives.regret import Regret, regrets
from collectives.select import choose
from collectives.table import EXECUTORS, PLACEMENTS, Table, Way
from collectives.trials import AT_ONCE, Timer
from collectives.tune import Wanted, WantedError
from collectives.tune_text import case_text, not_quiet

LIMIT = 1.15
"""A choice is to be no more than so many times slower than the best."""

Report = Callable[[str], object]


def check(comm: MPI.Comm, table: Table, wanted: Wanted, report: Report = print) -> list[Regret]:
    """Measure how good the choices of a table are, between the lengths it was measured at.

    Collective; all ranks get the same. Sections for other numbers of ranks are left out.

    Args:
        comm: as for `tune`.
        table: what to check.
        wanted: collectives, placements, dtype and budget; sizes are those between the table's.
        report: as for `tune`.

    Raises:
        WantedError: the table has nothing of what is wanted.
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
        raise WantedError(
            f"table: has none of {', '.join(sorted(names))} on {comm.Get_size()} ranks with "
            f"elements of {itemsize} bytes"
        )
    lengths = sum(max(1, len(s.sizes) - 1) for s in sections)
    found = []
    worst = 0.0
    for s in sections:
        timer = Timer(comm, COLLECTIVES[s.collective], s.placement, wanted.dtype, say)
        for n in between(s.sizes, 64 * comm.Get_size()):
            chosen = _pick(table, s.itemsize, s.collective, s.ranks, s.placement, n)
            seconds = {way: s.measured(way, n) for way in s.seconds}
            limit = NEAR * min(seconds.values())
            ranked = sorted(seconds, key=seconds.__getitem__)
            near = [w for w in ranked if w != chosen and seconds[w] <= limit]
            trials = timer.time(n, [chosen, *near[: AT_ONCE - 1]], wanted.budget / lengths, 5, 1000)
            worst = max([worst, *(t.disturbed for t in trials)])
            one = regrets(trials, lambda *case, s=s: _pick(table, s.itemsize, *case))
            found += one
            for r in one:
                say(
                    f"{case_text(r.collective, r.placement, r.nbytes)}: {r.chosen.algorithm} on "
                    f"{r.chosen.executor}, {r.ratio:.2f} x the best ({r.best.algorithm} on "
                    f"{r.best.executor})"
                )
    if worst > DISTURBED and has_own_cores(comm):
        say(not_quiet(worst))
    return found


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
