"""How much is timed in a given time."""

import pytest

from collectives.allowance import Costs, thinned

SIZES = tuple(8 << 2 * k for k in range(10))


def test_thinned():
    assert thinned(SIZES, 10) == thinned(SIZES, 99) == SIZES
    assert thinned(SIZES, 5) == (SIZES[0], SIZES[2], SIZES[4], SIZES[7], SIZES[9])
    assert thinned(SIZES, 2) == (SIZES[0], SIZES[9])
    assert thinned((8,), 3) == (8,)


@pytest.mark.parametrize("seconds", [100.0, 5.0, 1.0, 0.6, 0.4, 0.2])
def test_what_is_timed_fits(seconds):
    costs = Costs()
    share = costs.share(SIZES, 20, seconds)
    if share is None:
        assert costs.sum(costs.least(SIZES, 20)) > 0.6 * seconds
        return
    assert costs.sum(share) <= 0.6 * seconds
    assert {SIZES[0], SIZES[-1]} <= set(share.sizes) <= set(SIZES)
    assert 3 <= share.ways <= 20


def test_much_time_is_for_all_and_next_to_none_for_nothing():
    costs = Costs()
    assert costs.share(SIZES, 20, 1000.0).sizes == SIZES
    assert costs.share(SIZES, 20, 1000.0).ways == 20
    assert costs.share(SIZES, 20, 0.01) is None
    assert costs.share(SIZES[:1], 1, 1000.0).sizes == SIZES[:1]
    assert (len(costs.least(SIZES, 20).sizes), costs.least(SIZES, 20).ways) == (3, 3)


def test_costs_are_learnt():
    costs = Costs()
    for _ in range(20):
        costs.learn(1024, 3, 2.0)
    assert costs.of(1024, 3) == pytest.approx(2.0, rel=1e-3)
    assert costs.of(1024, 7) == pytest.approx(4.0, rel=1e-3)
    # Others are dearer, too, but not by as much: something may have been in the way.
    assert 1 < costs.of(2048, 3) / Costs().of(2048, 3) <= 4
