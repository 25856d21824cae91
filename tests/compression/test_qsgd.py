"""QSGD: bias, variance, the values it can take."""

import tracemalloc

import numpy as np
import pytest

from hpcdl.compression import QSGD
from tests.compression.cases import coded


def scale_of(x, norm):
    return np.abs(x).max() if norm == "max" else np.sqrt(np.sum(x * x))


@pytest.mark.parametrize("norm", ["max", "l2"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_element_has_the_right_mean(bits, norm, dtype):
    """2000 draws of each element against the exact standard deviation of its rounding."""
    rng, codec = np.random.default_rng(7), QSGD(bits, norm=norm)
    x = rng.standard_normal(64).astype(dtype)
    exact = x.astype(np.float64)
    step = scale_of(exact, norm) / codec.levels
    up = np.abs(exact) / step % 1  # how likely a value is rounded away from zero
    error = np.mean([coded(codec, x, rng) for _ in range(2000)], axis=0, dtype=np.float64) - exact
    slack = 100 * np.finfo(dtype).eps * np.abs(exact).max()
    assert (np.abs(error) <= 5 * step * np.sqrt(up * (1 - up) / 2000) + slack).all()


@pytest.mark.parametrize("norm", ["max", "l2"])
@pytest.mark.parametrize("bits", [2, 4, 5, 8])
@pytest.mark.parametrize("d", [1, 16, 512, 1000])
def test_variance_is_within_the_bound(bits, norm, d):
    """E |Q(x) - x|^2 <= min(d / s^2, sqrt(d) / s) |x|^2, and equals the sum of its parts."""
    rng, codec = np.random.default_rng(d), QSGD(bits, bucket=d, norm=norm)
    spikes = np.full(d, 1e-3)
    spikes[0] = 1.0
    for x in (rng.standard_normal(d), rng.uniform(-1, 1, d), spikes):
        draws = [np.sum((coded(codec, x, rng) - x) ** 2) for _ in range(200)]
        bound = min(d / codec.levels**2, np.sqrt(d) / codec.levels) * np.sum(x * x)
        step = scale_of(x, norm) / codec.levels
        up = np.abs(x) / step % 1
        expected = np.sum(up * (1 - up)) * step**2
        assert expected <= bound
        standard_error = np.std(draws) / np.sqrt(200)
        assert abs(np.mean(draws) - expected) <= 5 * standard_error + 1e-12 * np.sum(x * x)


@pytest.mark.parametrize("bits", range(2, 9))
def test_values_on_a_level_come_back_as_they_are(bits):
    s = QSGD(bits).levels
    assert s == {2: 1, 3: 3, 4: 7, 5: 15, 6: 31, 7: 63, 8: 127}[bits]
    x = np.arange(-s, s + 1) / 4  # M / s = 1/4
    assert np.array_equal(coded(QSGD(bits), x, np.random.default_rng(0)), x)


def test_values_between_levels_take_one_of_the_two():
    x = np.array([7.0, 2.25, -2.25, 0.0])
    seen = {tuple(coded(QSGD(4), x, np.random.default_rng(i))) for i in range(100)}
    assert seen == {(7.0, a, -b, 0.0) for a in (2.0, 3.0) for b in (2.0, 3.0)}


def test_each_bucket_has_its_own_scale():
    x = np.array([1.0, 0, 0, 1e-6, 0, 0, 1e6])
    assert np.array_equal(coded(QSGD(2, bucket=3), x, np.random.default_rng(0)), x)


def test_bytes():
    assert QSGD(4).payload_bytes(1000, np.float32) == 2 * 4 + 500
    assert QSGD(4).payload_bytes(1000, np.float64) == 2 * 8 + 500
    assert QSGD(2, bucket=100).payload_bytes(1000, np.float32) == 10 * 4 + 250
    assert QSGD(4).payload_bytes(0, np.float32) == 0


@pytest.mark.parametrize("norm", ["max", "l2"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_its_bucket(norm, bad):
    x = np.ones(6)
    x[1] = bad
    result = coded(QSGD(4, bucket=2, norm=norm), np.append(x, bad), np.random.default_rng(0))
    assert np.isnan(result).tolist() == [True, True, False, False, False, False, True]


def test_a_norm_that_overflows_is_not_finite():
    x = np.full(4, 3e38, np.float32)
    assert np.isnan(coded(QSGD(norm="l2"), x, np.random.default_rng(0))).all()
    assert np.array_equal(coded(QSGD(norm="max"), x, np.random.default_rng(0)), x)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bits": 1}, "bits=1: QSGD takes 2 to 8"),
        ({"bits": 9}, "bits=9"),
        ({"bucket": 0}, "bucket=0: QSGD needs at least 1"),
        ({"norm": "l1"}, "norm='l1': QSGD takes 'max' or 'l2'"),
    ],
)
def test_settings_are_checked(options, match):
    with pytest.raises(ValueError, match=match):
        QSGD(**options)


@pytest.mark.parametrize("norm", ["max", "l2"])
def test_a_bucket_beyond_the_vector_costs_no_memory(norm):
    """A bucket as long as the vector and the longest one that is allowed are the same."""
    x = np.random.default_rng(0).standard_normal(698)
    exact, wide = (QSGD(4, bucket=b, norm=norm) for b in (698, 2**31 - 1))
    assert wide.payload_bytes(698, np.float64) == 8 + 349
    tracemalloc.start()
    result = coded(wide, x, np.random.default_rng(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
    assert np.array_equal(result, coded(exact, x, np.random.default_rng(1)))
    assert coded(wide, x[:0], np.random.default_rng(1)).size == 0
