"""Order-independent sums against exact rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from collectives.fixed_point import FOLDS, SUMMANDS, add, raise_exponents, value

DTYPES = ["float16", "float32", "float64"]
RANGE = {"float16": 4, "float32": 30, "float64": 300}
LOST = {"float16": 42, "float32": 42, "float64": 84}
"""A summand loses at most the largest magnitude times 2^-LOST."""


def total(x, orders=(slice(None),)):
    """Sum (k, n) over k; the summands of each order go to folds of their own, added at the end."""
    n = x.shape[1]
    exponents = np.zeros(n, np.int32)
    for order in orders:
        for row in x[order]:
            raise_exponents(row, exponents)
    folds = np.zeros((FOLDS[x.dtype.name], n), np.int64)
    for order in orders:
        mine = np.zeros_like(folds)
        for row in x[order]:
            add(row, exponents, mine)
        folds += mine
    out = np.empty(n, x.dtype)
    value(folds, exponents, out)
    return out


def wild(dtype, k, n, seed=0):
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore", under="ignore"):
        x = rng.standard_normal((k, n)) * 10.0 ** rng.uniform(-RANGE[dtype], RANGE[dtype], (k, n))
        return x.clip(-np.finfo(dtype).max / 64, np.finfo(dtype).max / 64).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_error_is_within_the_bound(dtype):
    x = wild(dtype, 12, 3000)
    got = total(x)
    for column, result in zip(x.T, got, strict=True):
        exact = sum(Fraction(float(v)) for v in column)
        lost = 12 * Fraction(float(abs(column).max())) / 2 ** LOST[dtype]
        half = Fraction(float(np.spacing(abs(result)))) / 2
        assert abs(Fraction(float(result)) - exact) <= half + lost


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_fits_in_the_folds_is_rounded_once(dtype):
    """Summands of like exponents lose nothing: the result is the exact sum, rounded to nearest."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((9, 4000)) * 2.0 ** rng.integers(-4, 4, (9, 4000))).astype(dtype)
    x[1::2, ::3] = -x[:-1:2, ::3] * np.asarray(0.99, dtype)  # with much cancellation
    got = total(x)
    want = np.array([math.fsum(column) for column in x.T.astype(np.float64)])
    if dtype == "float64":
        assert got.tobytes() == (want + 0.0).tobytes()
        return
    for column, result in zip(x.T, got, strict=True):
        exact = sum(Fraction(float(v)) for v in column)
        near = [Fraction(float(v)) for v in (np.nextafter(result, s * np.inf) for s in (-1, 1))]
        off = abs(Fraction(float(result)) - exact)
        assert all(off <= abs(v - exact) for v in near)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ties_go_to_the_even_neighbour_also_by_less_than_any_bit_kept(dtype):
    eps = float(np.finfo(dtype).eps)
    tiny = {"float16": 2.0**-24, "float32": 2.0**-40, "float64": 2.0**-80}[dtype]
    half = eps / 2
    x = np.array([[1, half, 0], [1 + eps, half, 0], [1, half, tiny], [1 + eps, half, -tiny]])
    x = np.concatenate([x, -x]).T.astype(dtype)
    want = np.array([1, 1 + 2 * eps, 1 + eps, 1 + eps])
    np.testing.assert_array_equal(total(x), np.concatenate([want, -want]).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_and_any_grouping_gives_the_same_bits(dtype):
    x = wild(dtype, 12, 5000, seed=2)
    want = total(x).tobytes()
    rng = np.random.default_rng(3)
    for parts in (2, 3, 5, 12):
        order = rng.permutation(12)
        assert total(x, np.array_split(order, parts)).tobytes() == want
    assert total(np.concatenate([x, np.zeros_like(x)])).tobytes() == want


@pytest.mark.parametrize("dtype", DTYPES)
def test_subnormal_numbers_are_added_exactly(dtype):
    info = np.finfo(dtype)
    rng = np.random.default_rng(4)
    steps = rng.integers(-1000, 1000, (7, 500))
    x = (steps.astype(np.float64) * float(info.smallest_subnormal)).astype(dtype)
    np.testing.assert_array_equal(
        total(x), (steps.sum(axis=0) * float(info.smallest_subnormal)).astype(dtype)
    )
    # Beside a large number they count as nothing, and take nothing from it.
    large = np.full((1, 500), info.max, dtype)
    np.testing.assert_array_equal(total(np.concatenate([x, large, x])), large[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_nan_zeros_and_overflow(dtype):
    inf, nan, large = np.inf, np.nan, float(np.finfo(dtype).max)
    columns = {
        (1.0, inf, 2.0): inf,
        (1.0, -inf, large): -inf,
        (inf, inf, 1.0): inf,
        (inf, -inf, 1.0): nan,
        (1.0, nan, 2.0): nan,
        (inf, nan, -inf): nan,
        (-0.0, -0.0, -0.0): 0.0,
        (large, large, 0.0): inf,
        (-large, -large, 0.0): -inf,
        (large, large, -large): large,
        (large, -large, 1.0): 1.0 if dtype == "float16" else 0.0,
        (large, -large, 0.0): 0.0,
    }
    x = np.array(list(columns)).T.astype(dtype)
    got = total(x)
    want = np.array(list(columns.values()), dtype)
    assert got.tobytes() == want.tobytes()
    assert total(x[::-1]).tobytes() == got.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_many_summands_as_are_allowed_do_not_overflow(dtype):
    """The folds of one summand, times the number of summands, are still int64."""
    info = np.finfo(dtype)
    for x in (
        info.max,
        -info.max,
        1 - info.epsneg,
        info.smallest_subnormal,
        np.inf,
        -np.inf,
        np.nan,
    ):
        row = np.array([x], dtype)
        exponents = np.zeros(1, np.int32)
        raise_exponents(row, exponents)
        folds = np.zeros((FOLDS[dtype], 1), np.int64)
        add(row, exponents, folds)
        assert all(abs(int(f) * SUMMANDS) < 2**63 for f in folds[:, 0])
        out = np.empty(1, dtype)
        value(folds * SUMMANDS, exponents, out)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(out, (row.astype(np.longdouble) * SUMMANDS).astype(dtype))


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((9, 4000)) * 2.0 ** rng.integers(-140, 4, (9, 4000))).astype(
        ml_dtypes.bfloat16
    )
    special = [1, np.inf, np.nan, -np.inf, 1e-40, -1, 0, 3e38, np.inf, np.inf, np.inf]
    x[:, :11] = 0
    x[0, :11] = special
    x[1, 9:11] = [3, -np.inf]
    got = total(x)
    # The nearest of all, each by its distance in exact arithmetic.
    bits = np.arange(0x7F80, dtype=np.uint16)  # of all that are finite and not below zero
    every = bits.view(ml_dtypes.bfloat16).astype(np.float64)
    every = np.concatenate([-every[:0:-1], every])
    for column, result in zip(x[:, 11:].T.astype(np.float64), got[11:], strict=True):
        exact = sum(map(Fraction, column))
        at = np.searchsorted(every, float(exact))
        near = every[max(at - 1, 0) : at + 2]
        lost = 9 * Fraction(float(abs(column).max())) / 2**42
        best = min(abs(Fraction(float(v)) - exact) for v in near)
        assert abs(Fraction(float(result)) - exact) <= best + lost
    want = np.array([*special[:10], np.nan], x.dtype).astype(np.float64)
    np.testing.assert_array_equal(got[:11].astype(np.float64), want)
    assert total(x[::-1]).tobytes() == got.tobytes()
