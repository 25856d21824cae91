"""ReLU at its kink."""

import numpy as np

from hpcdl.nn import ReLU


def test_the_derivative_at_zero_is_zero():
    x = np.array([[-1.0, -0.0, 0.0, 2.0]])
    y, ctx = ReLU().forward({}, x, train=True)
    assert y.tolist() == [[0, 0, 0, 2]]
    assert ReLU().backward({}, ctx, np.full((1, 4), 3.0), {}).tolist() == [[0, 0, 0, 3]]


def test_nan_is_not_hidden():
    assert np.isnan(ReLU().forward({}, np.array([[np.nan]]), train=False)[0]).all()
