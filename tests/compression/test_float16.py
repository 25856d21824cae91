"""Half precision: its errors and limits, and sums of payloads."""

import numpy as np

from hpcdl.compression import Float16
from tests.compression.cases import coded, encoded

RNG = np.random.default_rng(0)


def test_error():
    x = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.linspace(-9, 4, 1000)
    error = np.abs(coded(Float16(), x, RNG) - x)
    assert (error <= np.maximum(2.0**-11 * np.abs(x), 3.0e-8)).all()


def test_limits():
    x = np.array([65504.0, 7e4, -7e4, np.nan, np.inf])
    expected = [65504.0, np.inf, -np.inf, np.nan, np.inf]
    assert np.array_equal(coded(Float16(), x, RNG), expected, equal_nan=True)


def test_payloads_can_be_added():
    x, y = np.arange(9.0), np.arange(9.0) ** 2
    codec = Float16()
    added = sum(encoded(codec, v, RNG).view(codec.payload_dtype) for v in (x, y))
    out = np.zeros(9)
    codec.decode(added.view(np.uint8), out)
    assert np.array_equal(out, x + y)
