"""Local SGD: period 1 is synchronous training; others are what P workers on their own would do."""

import numpy as np
import pytest

from collectives import Traffic
from hpcdl.consistency import LocalSGD, Synchronous
from tests.consistency.problem import DIMENSION, Momentum, serial, share_of_gradient, train


@pytest.mark.ranks(1, 2, 3, 4)
def test_period_1_equals_synchronous(comm):
    """With momentum, weight decay and uneven shares; every third batch leaves ranks without."""
    for options in ({}, {"nesterov": True}, {"momentum": 0.0}, {"lr": 0.005, "momentum": 0.95}):
        local = train(LocalSGD(1), comm, 30, **options)[:-1]
        np.testing.assert_allclose(local, serial(30, **options), rtol=1e-12, atol=1e-13)
        together = train(Synchronous(), comm, 30, **options)[:-1]
        np.testing.assert_allclose(local, together, rtol=1e-12, atol=1e-13)
        assert len(set(comm.allgather(local.tobytes()))) == 1


def workers(size, period, steps):
    """Return all ranks' parameters after each step (steps, size, d), on one rank."""
    w = [np.zeros(DIMENSION) for _ in range(size)]
    optimizers, path = [Momentum() for _ in w], []
    for step in range(1, steps + 1):
        for rank, (mine, optimizer) in enumerate(zip(w, optimizers, strict=True)):
            optimizer.update(mine, size * share_of_gradient(mine, step - 1, rank, size))
        if step % period == 0:
            w = [np.mean(w, axis=0) for _ in w]
        path.append(np.array(w))
    return np.array(path)


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("period", [2, 5])
def test_in_between_each_rank_trains_by_itself(comm, period):
    ours = train(LocalSGD(period), comm, 23)
    want = workers(comm.size, period, 23)
    np.testing.assert_allclose(ours[:-1], want[:, comm.rank], rtol=1e-12, atol=1e-13)
    # 23 is no multiple of the period: the flush at the end averages once more.
    np.testing.assert_allclose(ours[-1], want[-1].mean(axis=0), rtol=1e-12)
    if comm.size > 1:
        assert len(set(comm.allgather(ours[0].tobytes()))) == comm.size


@pytest.mark.ranks(1, 3, 4)
def test_traffic_divides_by_the_period(comm):
    sent = {}
    for consistency in (Synchronous("ring"), LocalSGD(1, "ring"), LocalSGD(4, "ring")):
        sent[consistency] = Traffic()
        train(consistency, comm, 8, traffic=sent[consistency])
    every, one, four = (t.bytes for t in sent.values())
    assert comm.allreduce(every) == 8 * 2 * (comm.size - 1) * DIMENSION * 8
    assert one == every
    assert four == every / 4


@pytest.mark.ranks(3)
def test_flush_averages_once(comm):
    w, g, traffic = np.full(5, float(comm.rank)), np.zeros(5), Traffic()
    consistency = LocalSGD(10)
    state = consistency.init(w, g, comm, traffic=traffic)
    consistency.flush(w, state)  # nothing to do: they are the same, as far as it knows
    assert traffic.bytes == 0
    consistency.mix(w, state, 0)
    consistency.flush(w, state)
    assert np.array_equal(w, np.ones(5))
    sent = traffic.bytes
    assert sent > 0
    consistency.flush(w, state)
    assert traffic.bytes == sent
    consistency.restore(state, {})  # saved between two averages, so they may differ
    w[...] = 2.0 * comm.rank
    consistency.flush(w, state)
    assert np.array_equal(w, np.full(5, 2.0))
    with pytest.raises(ValueError, match="params: is not the array"):
        consistency.mix(w.copy(), state, 1)
    consistency.close(state)


@pytest.mark.parametrize("period", [0, -1])
def test_settings_are_checked(period):
    with pytest.raises(ValueError, match=f"period={period}: LocalSGD needs at least 1 step"):
        LocalSGD(period)
