"""Synchronous training equals one rank; with a codec it is bitwise the same on all ranks."""

import numpy as np
import pytest

from collectives import Traffic
from hpcdl.compression import QSGD, ErrorFeedback, TopK
from hpcdl.consistency import Synchronous
from tests.consistency.problem import DIMENSION, serial, train

CODECS = [QSGD(6), ErrorFeedback(TopK(0.3)), ErrorFeedback(QSGD(4))]


@pytest.mark.ranks(1, 2, 3, 4, 8)
def test_any_number_of_ranks_equals_one(comm):
    """Uneven batches, and ranks without a sample, as the short batches of 2 rows give."""
    for algorithm in ("auto", "ring", "tree"):
        ours = train(Synchronous(algorithm), comm, 30)[:-1]
        np.testing.assert_allclose(ours, serial(30), rtol=1e-12, atol=1e-13)
        assert len(set(comm.allgather(ours.tobytes()))) == 1


@pytest.mark.ranks(3)
def test_codecs(comm):
    for codec in CODECS:
        for route in ("gather", "reencode"):
            path = train(
                Synchronous(codec=codec, route=route),
                comm,
                100,
                lr=0.05,
                momentum=0.5,
                decay=0.0,
            )
            assert len(set(comm.allgather(path.tobytes()))) == 1, f"{codec} by {route}"
            np.testing.assert_allclose(path[-1], np.arange(1.0, DIMENSION + 1), atol=0.2)


@pytest.mark.ranks(2)
def test_the_seed_is_that_of_the_codec(comm):
    runs = [train(Synchronous(codec=QSGD(2), route="gather", seed=s), comm, 5) for s in (0, 0, 1)]
    assert runs[0].tobytes() == runs[1].tobytes()
    assert runs[0].tobytes() != runs[2].tobytes()
    with pytest.raises(ValueError, match="seed=-1"):
        Synchronous(seed=-1)


@pytest.mark.ranks(3)
def test_random_numbers_differ_between_ranks_and_steps(comm):
    """One value between two levels: if ranks drew alike, sums would be 0 or 3 levels only."""
    sums = set()
    grads = np.zeros(2)
    consistency = Synchronous(codec=QSGD(2), route="gather")
    state = consistency.init(np.zeros(2), grads, comm)
    for step in range(60):
        grads[...] = 1.0, 0.5
        consistency.reduce(grads, state, step)
        assert grads[0] == 3
        sums.add(grads[1])
    consistency.close(state)
    assert sums == {0.0, 1.0, 2.0, 3.0}


@pytest.mark.ranks(3)
def test_restored_arrays_go_on_bitwise(comm):
    consistency = Synchronous(codec=ErrorFeedback(TopK(0.2)), route="gather")

    def steps(state, grads, first, last):
        sums = []
        for step in range(first, last):
            grads[...] = np.random.default_rng([step, comm.rank]).standard_normal(20)
            consistency.reduce(grads, state, step)
            sums.append(grads.copy())
        return np.array(sums)

    grads = np.zeros(20)
    state = consistency.init(np.zeros(20), grads, comm)
    steps(state, grads, 0, 3)
    saved = {name: a.copy() for name, a in consistency.arrays(state).items()}
    assert list(saved) == ["residual"]
    want = steps(state, grads, 3, 6)
    consistency.close(state)
    state = consistency.init(np.zeros(20), grads, comm)
    consistency.restore(state, saved)
    assert steps(state, grads, 3, 6).tobytes() == want.tobytes()
    consistency.close(state)


@pytest.mark.ranks(1, 4)
def test_bytes(comm):
    grads, traffic = np.zeros(1000, np.float32), Traffic()
    consistency = Synchronous("ring")
    state = consistency.init(grads.copy(), grads, comm, traffic=traffic)
    for step in range(3):
        consistency.reduce(grads, state, step)
        consistency.mix(state.grads, state, step)
    assert state.allreduce.route == "dense"
    assert traffic.bytes == 3 * state.allreduce.bytes_sent == 3 * 2 * (comm.size - 1) * 1000
    consistency.close(state)
