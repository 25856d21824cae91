from dataclasses import dataclass

import numpy as np
import pytest

from collectives.collective import ALLREDUCE
from collectives.regret import regrets
from collectives.select import choose
from collectives.table import Section, Table, Way, breakpoints_of, interpolated


@dataclass
class Row:
    algorithm: str
    executor: str
    bytes: int
    median_us: float
    collective: str = "allreduce"
    placement: str = "private"
    ranks: int = 4


RING, DOUBLING = Way("ring", "native"), Way("recursive_doubling", "python")


def rows(nbytes, ring, doubling):
    return [Row(*RING, nbytes, ring), Row(*DOUBLING, nbytes, doubling)]


def test_the_ratio_of_the_chosen_one_to_the_best():
    found = regrets(
        [*rows(8, 30.0, 10.0), *rows(1 << 20, 100.0, 400.0), Row("MPI", "library", 8, 1.0)],
        lambda collective, ranks, placement, nbytes: RING,
    )
    assert [(r.nbytes, r.ratio) for r in found] == [(8, 3.0), (1 << 20, 1.0)]
    assert found[0].best == DOUBLING
    assert (found[0].collective, found[0].ranks, found[0].placement) == ("allreduce", 4, "private")


def test_what_cannot_be_compared():
    with pytest.raises(
        ValueError, match=r"rows: Way\(algorithm='swing', executor='native'\) is ch"
    ):
        regrets(rows(8, 1.0, 2.0), lambda *case: Way("swing", "native"))
    with pytest.raises(ValueError, match=r"rows: Way\(algorithm='ring'.* is there twice for allr"):
        regrets(rows(8, 1.0, 2.0) * 2, lambda *case: RING)


def lines(rng, ways):
    """A time for each way: a constant, and so much a byte."""
    return {w: (rng.uniform(2e-6, 2e-5), rng.uniform(1e-10, 2e-9)) for w in ways}


@pytest.mark.parametrize("seed", range(20))
def test_a_table_of_measured_lines_is_never_far_from_the_best(seed):
    """Measured at powers of four with errors of 2 %; looked at in between, too."""
    rng = np.random.default_rng(seed)
    ways = [Way(a, e) for a in ("ring", "tree", "swing", "direct") for e in ("native", "python")]
    cost = lines(rng, ways)

    def took(way, n):
        return cost[way][0] + n * cost[way][1]

    sizes = tuple(8 * 4**k for k in range(12))
    seconds = {w: tuple(took(w, n) * rng.normal(1, 0.02) for n in sizes) for w in ways}
    section = Section("allreduce", 4, "private", 4, sizes, seconds, breakpoints_of(sizes, seconds))
    table = Table("", "", "", {}, (section,))
    assert 1 <= len(section.breakpoints) <= 6

    def pick(collective, ranks, placement, nbytes):
        choice = choose(ALLREDUCE, ranks, nbytes, table=table, placement=placement)
        return Way(choice.algorithm, choice.executor)

    # Longer ones the table does not cover.
    between = [round(n * f) for n in sizes for f in (1, 1.3, 2, 3) if n * f <= 2 * sizes[-1]]
    measured = [Row(*w, n, 1e6 * took(w, n)) for n in between for w in ways]
    assert max(r.ratio for r in regrets(measured, pick)) <= 1.15


def test_times_between_sizes_are_on_lines_between_logarithms():
    assert interpolated((8, 128), (1e-6, 4e-6), 32) == pytest.approx(2e-6)
    assert interpolated((8, 128), (1e-6, 4e-6), 8) == 1e-6
    assert interpolated((8, 128), (1e-6, 4e-6), 128) == 4e-6
    assert interpolated((8, 128), (1e-6, 4e-6), 0) == 1e-6
    assert interpolated((8, 128), (1e-6, 4e-6), 1 << 20) == 4e-6
    assert interpolated((0, 128), (1e-6, 4e-6), 0) == 1e-6
    assert interpolated((64,), (3e-6,), 1) == 3e-6


def test_breakpoints_are_where_the_lines_cross():
    sizes = (64, 1024, 16384)
    seconds = {RING: (8e-6, 8e-6, 16e-6), DOUBLING: (2e-6, 32e-6, 512e-6)}
    first, second = breakpoints_of(sizes, seconds)
    assert (first.nbytes, first.way, first.seconds) == (64, DOUBLING, 2e-6)
    assert second.way == RING
    assert 256 <= second.nbytes <= 266  # at 256 both take 8 us; a few per cent do not matter
    assert second.seconds == pytest.approx(8e-6)


def test_small_differences_make_no_breakpoint():
    seconds = {RING: (1.02e-6, 1.0e-6, 1.02e-6), DOUBLING: (1.0e-6, 1.02e-6, 1.0e-6)}
    only = breakpoints_of((8, 64, 512), seconds)
    assert [(b.nbytes, b.way) for b in only] == [(8, DOUBLING)]


def test_a_third_way_may_be_best_between_two_sizes():
    third = Way("tree", "native")
    seconds = {RING: (1e-6, 4e-6), DOUBLING: (4e-6, 1e-6), third: (1.2e-6, 1.2e-6)}
    assert [b.way for b in breakpoints_of((8, 1 << 20), seconds)] == [RING, third, DOUBLING]
