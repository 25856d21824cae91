"""What every consistency promises."""

import numpy as np
import pytest

from hpcdl.consistency import CONSISTENCIES, LocalSGD, Synchronous
from tests.consistency.problem import DIMENSION, serial, train

CASES = [*(make() for make in CONSISTENCIES.values()), LocalSGD(4), Synchronous("tree")]


def test_each_consistency_that_ships_is_tested():
    assert {type(c) for c in CASES} == set(CONSISTENCIES.values())


@pytest.mark.ranks(1)
def test_one_rank_equals_serial_sgd_bitwise(comm):
    for consistency in CASES:
        assert np.array_equal(train(consistency, comm, 20)[:-1], serial(20)), consistency


@pytest.mark.ranks(1, 2, 3)
def test_a_quadratic_is_minimised(comm):
    """The weights come near those that the targets were made with, and are the same everywhere."""
    for consistency in CASES:
        end = train(consistency, comm, 60, lr=0.05, momentum=0.5, decay=0.0)[-1]
        np.testing.assert_allclose(end, np.arange(1.0, DIMENSION + 1), atol=0.15)
        assert len(set(comm.allgather(end.tobytes()))) == 1, consistency


@pytest.mark.ranks(3)
def test_two_runs_have_the_same_bits(comm):
    for consistency in CASES:
        assert train(consistency, comm, 10).tobytes() == train(consistency, comm, 10).tobytes()


@pytest.mark.ranks(2)
def test_what_is_refused(comm):
    w, g = np.zeros(4), np.zeros(4)
    for consistency in CASES:
        with pytest.raises(ValueError, match=r"params, grads: .*\(4,\), \(5,\)"):
            consistency.init(w, np.zeros(5), comm)
        with pytest.raises(ValueError, match=r"params, grads: .*float64, float32"):
            consistency.init(w, np.zeros(4, np.float32), comm)
        with pytest.raises(ValueError, match="params, grads"):
            consistency.init(np.zeros((2, 2)), np.zeros((2, 2)), comm)
        state = consistency.init(w, g, comm)
        with pytest.raises(ValueError, match="grads: is not the array"):
            consistency.reduce(g.copy(), state, 0)
        with pytest.raises(ValueError, match="arrays: "):
            consistency.restore(state, {"velocity": w})
        assert consistency.arrays(state) == {}
        consistency.restore(state, {})
        consistency.close(state)
        consistency.close(state)


@pytest.mark.ranks(1, 3)
def test_no_parameters(comm):
    for consistency in CASES:
        w, g = np.zeros(0, np.float32), np.zeros(0, np.float32)
        state = consistency.init(w, g, comm)
        consistency.reduce(g, state, 0)
        consistency.mix(w, state, 0)
        consistency.flush(w, state)
        consistency.close(state)
