"""What a table holds, by runs that are given."""

import numpy as np
import pytest

from collectives.collective import BCAST
from collectives.compare import clearly_faster, median_interval
from collectives.measured import Length, section_of, time_length
from collectives.select import choose
from collectives.table import Table, Way
from collectives.trials import Trial

OWN = Way("direct", "shared")
LINEAR, CHAIN = Way("linear", "native"), Way("chain", "native")


def runs(median, spread=0.0, count=11):
    """Evenly spaced around the median."""
    return median * np.linspace(1 - spread, 1 + spread, count)


def trial(way, seconds, nbytes=8, disturbed=0.0, calm=False):
    return Trial("bcast", *way, "private", 4, nbytes, np.asarray(seconds), disturbed, calm)


def length(*trials, own=OWN, before=None, own_cores=True):
    return Length(own, trials, before or {}, own_cores)


def taken(section, nbytes):
    table = Table("", "", "", {}, (section,))
    executors = ("native", "python", "shared")
    choice = choose(BCAST, 4, nbytes, table=table, executors=executors)
    return Way(choice.algorithm, choice.executor), choice.seconds


def test_where_the_median_lies():
    # Of 100 runs the 40th and the 61st: 50 +- 1.96 * sqrt(100) / 2, outwards.
    assert median_interval(np.arange(1.0, 101)) == (40, 61)
    assert median_interval(np.array([3.0, 1, 5, 2, 4])) == (1, 5)
    assert median_interval(np.array([2.0])) == (2, 2)


def test_that_interval_holds_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    for count in (10, 31, 200):
        held = 0
        for _ in range(1000):
            low, high = median_interval(rng.exponential(1.0, count))
            held += low <= np.log(2) <= high  # the median of that distribution
        assert held >= 950


def test_clearly_faster():
    assert clearly_faster(runs(1.0, 0.1), runs(1.2, 0.1))
    assert not clearly_faster(runs(1.0, 0.3), runs(1.2, 0.1))
    assert not clearly_faster(runs(1.0, 0.3), runs(1.2, 0.3))
    assert not clearly_faster(runs(1.0), runs(1.0))
    # Five runs: all of them have to be.
    assert clearly_faster(np.array([1.0, 2, 3, 4, 5]), np.array([6.0, 7, 8, 9, 10]))
    assert not clearly_faster(np.array([1.0, 2, 3, 4, 6.5]), np.array([6.0, 7, 8, 9, 10]))


def test_one_way_twice_is_hardly_ever_clearly_faster():
    rng = np.random.default_rng(1)
    for count in (5, 20, 200):
        wins = sum(clearly_faster(*rng.lognormal(0, 1, (2, count))) for _ in range(1000))
        assert wins <= 10


def test_what_auto_takes_stays_unless_another_is_clearly_faster():
    near = section_of([length(trial(OWN, runs(10e-6, 0.3)), trial(LINEAR, runs(9e-6, 0.3)))], 4)
    assert taken(near, 8) == (OWN, pytest.approx(10e-6))
    assert near.seconds[LINEAR] == pytest.approx((9e-6,))
    clear = section_of([length(trial(OWN, runs(10e-6, 0.1)), trial(LINEAR, runs(7e-6, 0.1)))], 4)
    assert taken(clear, 8) == (LINEAR, pytest.approx(7e-6))


def test_each_length_for_itself():
    lengths = [
        length(trial(OWN, runs(900e-6), 1 << 20), trial(LINEAR, runs(300e-6), 1 << 20)),
        length(trial(OWN, runs(5e-6)), trial(LINEAR, runs(2e-6, 2.0))),
    ]
    found = section_of(lengths, 8)
    assert (found.collective, found.ranks, found.placement, found.itemsize) == (
        "bcast",
        4,
        "private",
        8,
    )
    assert found.sizes == (8, 1 << 20)
    assert dict(found.seconds) == {
        OWN: pytest.approx((5e-6, 900e-6)),
        LINEAR: pytest.approx((2e-6, 300e-6)),
    }
    assert taken(found, 8) == (OWN, pytest.approx(5e-6))
    assert taken(found, 1 << 20) == (LINEAR, pytest.approx(300e-6))
    for b in found.breakpoints:
        assert b.seconds == pytest.approx(found.measured(b.way, b.nbytes))


def test_a_way_that_was_timed_before_only_is_not_taken():
    found = section_of([length(trial(OWN, runs(10e-6)), before={CHAIN: 9e-6})], 4)
    assert found.seconds[CHAIN] == (9e-6,)
    assert taken(found, 8)[0] == OWN


def test_a_way_that_was_not_timed_at_each_length_is_left_out():
    both = [
        length(trial(OWN, runs(1e-6), 8), trial(CHAIN, runs(2e-6), 8)),
        length(trial(OWN, runs(1e-6), 64), trial(LINEAR, runs(0.5e-6), 64)),
    ]
    assert set(section_of(both, 4).seconds) == {OWN}
    apart = [length(trial(CHAIN, runs(1e-6), 8)), length(trial(LINEAR, runs(1e-6), 64))]
    assert section_of(apart, 4) is None
    assert section_of([], 4) is None


def test_without_what_auto_takes_the_fastest_counts():
    found = section_of([length(trial(CHAIN, runs(2e-6)), trial(LINEAR, runs(1e-6)), own=None)], 4)
    assert taken(found, 8)[0] == LINEAR


def test_a_machine_that_is_not_quiet():
    def at(nbytes, **how):
        return [trial(OWN, runs(10e-6), nbytes, **how), trial(LINEAR, runs(5e-6), nbytes, **how)]

    busy = length(*at(64, disturbed=0.6))
    assert (busy.disturbed, busy.trusted) == (0.6, False)
    assert length(*at(64, disturbed=0.6, calm=True)).trusted  # those runs do not count
    assert length(*at(64, disturbed=0.4)).trusted
    # Where ranks take turns on a core, each loses it to another rank.
    assert length(*at(64, disturbed=1.0), own_cores=False).trusted

    half = section_of([length(*at(8)), busy], 4)
    assert taken(half, 8)[0] == LINEAR
    assert taken(half, 64)[0] == OWN
    assert section_of([length(*at(8, disturbed=0.6)), busy], 4) is None
    unknown = length(*at(8, disturbed=0.6), own=None)
    assert section_of([length(*at(64)), unknown], 4) is None


class _Timer:
    """Says what each way takes; each time it is asked the machine is slower."""

    def __init__(self, seconds):
        self.seconds, self.asked, self.slower = seconds, [], 1.0

    def time(self, nbytes, ways, budget, least, most):
        self.asked.append(list(ways))
        self.slower *= 2
        return [trial(w, runs(self.slower * self.seconds[w]), nbytes) for w in ways]


def test_many_ways_are_compared_by_what_each_has_to_the_same():
    ways = [Way(f"way{i}", "native") for i in range(10)]
    seconds = {OWN: 1.0} | {w: 1.05 + 0.1 * i for i, w in enumerate(ways)}
    timer = _Timer(seconds)
    found = time_length(timer, 8, OWN, [*ways, OWN], 1.0, own_cores=True)
    assert timer.asked == [[OWN, *ways[:7]], [OWN, *ways[7:]], [OWN, *ways[:4]]]  # up to 1.4 x
    assert [t.way for t in found.together] == [OWN, *ways[:4]]
    assert found.seconds == {w: pytest.approx(8 * s) for w, s in seconds.items()}


def test_a_few_ways_take_turns_at_once():
    timer = _Timer({OWN: 1.0, LINEAR: 5.0})
    found = time_length(timer, 8, OWN, [LINEAR, OWN], 1.0, own_cores=True)
    assert timer.asked == [[OWN, LINEAR]]
    assert (found.before, len(found.together)) == ({}, 2)
