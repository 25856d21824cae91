"""Sums of floating-point numbers whose bits do not depend on the order of the summands.

All summands of one element are rounded to multiples of one quantum, which only their largest
exponent decides; as multiples of it they are integers, and integers add exactly, in any order
(pre-rounding: Demmel and Nguyen 2013, 2015). One more integer takes what the first has rounded
off, where the format has more bits than one integer: these are the folds.

The exponents are those of float64, biased, as the bits have them: 0 for zero, 1 .. 2046 for what
is finite, `SPECIAL` for infinities and NaN. A summand of biased exponent b is below 2^(b - 1022) in
magnitude, and so is no more than 2^42 quanta: 2^20 of them fit in an int64.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FOLDS = {"float16": 1, "bfloat16": 1, "float32": 1, "float64": 2}
"""The number of int64 that stand for one element, by dtype."""

SUMMANDS = 1 << 20
"""As many summands can be added without overflow."""

SPECIAL = 2047
"""The biased exponent of infinities and NaN."""

_BITS = 42  # of a fold, for one summand; with 20 more for the sum and the sign it is an int64
_BIAS = 1022
_COUNT = 21  # bits that count up to SUMMANDS: how many are +inf, how many -inf, how many NaN
_CHUNK = 1 << 15  # elements worked on at once: the temporaries stay in the cache

Integers: TypeAlias = npt.NDArray[np.int64]


def raise_exponents(x: npt.NDArray[Any], exponents: npt.NDArray[np.int32]) -> None:
    """Raise each exponent to that of the summand, where it is lower.

    Args:
        x: of one of the dtypes of `FOLDS`; (n,).
        exponents: biased; int32 (n,), updated in place.
    """
    for part in _chunks(x.size):
        bits = _wide(x[part]).view(np.int64)
        found = ((bits >> 52) & SPECIAL).astype(np.int32)
        np.maximum(exponents[part], found, out=exponents[part])


def add(x: npt.NDArray[Any], exponents: npt.NDArray[np.int32], folds: Integers) -> None:
    """Add summands to the folds.

    Args:
        x: of one of the dtypes of `FOLDS`; (n,).
        exponents: the largest biased exponents of all summands; int32 (n,).
        folds: int64 (number of folds, n), updated in place.
    """
    for part in _chunks(x.size):
        special = exponents[part] == SPECIAL
        some = bool(special.any())
        y = _wide(x[part])
        if some:
            folds[0, part][special] += _code(y[special])
            y[special] = 0
        shift = _BITS - _power(exponents[part])
        # In two steps, as the range of one factor ends before that of the shift does.
        y *= _two_to(shift >> 1)
        y *= _two_to(shift - (shift >> 1))
        for fold in folds:
            whole = np.rint(y)
            fold[part] += whole.astype(np.int64)
            y -= whole
            y *= float(1 << _BITS)


def value(folds: Integers, exponents: npt.NDArray[np.int32], out: npt.NDArray[Any]) -> None:
    """Store what the folds stand for, rounded once, to the nearest, ties to even.

    A zero is +0 and a NaN is the one of numpy, whatever the summands were. Infinities of one sign
    give that infinity, of both signs NaN.

    Args:
        folds: int64 (number of folds, n).
        exponents: those that the summands were added with; int32 (n,).
        out: (n,), of the dtype of the summands.
    """
    for part in _chunks(out.size):
        power = _power(exponents[part]) - _BITS
        if len(folds) == 1:
            # A bfloat16 is rounded from float32, which must hold all that is there to round.
            whole, shift = _narrow(folds[0, part], 24 if out.dtype.name == "bfloat16" else 53)
        else:
            whole, shift = _joined(folds[0, part], folds[1, part])
        with np.errstate(over="ignore"):  # the sum may be too large for its dtype: it is infinite
            found = np.ldexp(whole.astype(np.float64), (power + shift).astype(np.int32))
            special = exponents[part] == SPECIAL
            if special.any():
                found[special] = _decoded(folds[0, part][special])
            out[part] = found.astype(out.dtype)


def _chunks(n: int) -> list[slice]:
    return [slice(i, min(i + _CHUNK, n)) for i in range(0, n, _CHUNK)]


def _wide(x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        return x.astype(np.float64)


def _power(exponents: npt.NDArray[np.int32]) -> Integers:
    """Return the power of two that all summands of an element are below in magnitude."""
    return np.maximum(exponents, 1).astype(np.int64) - _BIAS


def _two_to(power: Integers) -> npt.NDArray[np.float64]:
    bits: Integers = (power + 1023) << 52
    return bits.view(np.float64)


def _narrow(whole: Integers, bits: int) -> tuple[Integers, Integers]:
    """Return integers of at most so many bits, and the powers of two that they have lost.

    They are rounded to odd, which leaves the next rounding, to fewer bits, as right as if it were
    the first (Boldo and Melquiond 2008).
    """
    lost = np.maximum(_bits(whole) - bits, 0)
    rest = whole & ((np.int64(1) << lost) - 1)
    return (whole >> lost) | (rest != 0), lost


def _joined(high: Integers, low: Integers) -> tuple[Integers, Integers]:
    """Return integers of at most 63 bits that stand for ``high + low / 2^42``, rounded to odd.

    The second result is the power of two to multiply them by.
    """
    carry = low >> _BITS
    high = high + carry
    low = low - (carry << _BITS)
    room = np.clip(61 - _bits(high), 0, _BITS)
    rest = _BITS - room
    dropped = low & ((np.int64(1) << rest) - 1)
    return ((high << room) + (low >> rest)) | (dropped != 0), -room


def _bits(whole: Integers) -> Integers:
    """Return how many bits the magnitude has; one more where the conversion rounds it up."""
    bits = np.frexp(whole.astype(np.float64))[1]
    return np.asarray(bits, np.int64)


def _code(x: npt.NDArray[np.float64]) -> Integers:
    """Return integers whose sum counts the infinities of each sign and the NaN."""
    code: Integers = (x == np.inf).astype(np.int64)
    code += (x == -np.inf).astype(np.int64) << _COUNT
    code += np.isnan(x).astype(np.int64) << 2 * _COUNT
    return code


def _decoded(code: Integers) -> npt.NDArray[np.float64]:
    mask = (1 << _COUNT) - 1
    positive, negative = (code & mask) > 0, (code >> _COUNT & mask) > 0
    nan = (code >> 2 * _COUNT > 0) | (positive & negative)
    return np.where(nan, np.nan, np.where(positive, np.inf, -np.inf))
