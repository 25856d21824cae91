"""Compiled reductions for every dtype and operation, on addresses.

Importing this module compiles nothing; the first call does, or takes what is kept on disk. 16-bit
floats are widened to float32, reduced there, and rounded once at the end.

A kernel takes a ``code``: ``len(OPERATIONS) * DTYPES.index(dtype) + OPERATIONS.index(operation)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

from collectives.executors.intrinsics import (
    float_bits,
    float_of,
    float_to_half,
    half_to_float,
    pointer_f32,
    pointer_f64,
    pointer_i32,
    pointer_i64,
    pointer_u16,
)

OPERATIONS = ("SUM", "PROD", "MIN", "MAX")
DTYPES = ("float32", "float64", "int32", "int64", "float16", "bfloat16")
ACCUMULATOR = (4, 8, 4, 8, 4, 4)
"""Bytes of an element while it is accumulated, for each of ``DTYPES``."""

_OPS = len(OPERATIONS)
_inline = njit(nogil=True, inline="always", error_model="numpy")
_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_inline
def _f32(address: int, n: int) -> Any:
    return carray(pointer_f32(address), n)


@_inline
def _f64(address: int, n: int) -> Any:
    return carray(pointer_f64(address), n)


@_inline
def _i32(address: int, n: int) -> Any:
    return carray(pointer_i32(address), n)


@_inline
def _i64(address: int, n: int) -> Any:
    return carray(pointer_i64(address), n)


@_inline
def _u16(address: int, n: int) -> Any:
    return carray(pointer_u16(address), n)


@_inline
def _add(a: Any, b: Any) -> Any:
    return a + b


@_inline
def _mul(a: Any, b: Any) -> Any:
    return a * b


@_inline
def _min(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


@_inline
def _max(a: Any, b: Any) -> Any:
    return a if a > b or a != a else b


@_inline
def _same(x: Any) -> Any:
    return x


@_inline
def _widen_brain(bits: Any) -> Any:
    return float_of(np.uint32(bits) << np.uint32(16))


@_inline
def _narrow_brain(value: Any) -> Any:
    bits = float_bits(value)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.uint16(rounded if value == value else quiet)


@_inline
def _into(f: Any, wide: Any, narrow: Any, target: Any, source: Any, n: int) -> None:
    for i in range(n):
        target[i] = narrow(f(wide(target[i]), wide(source[i])))


@_inline
def _both(f: Any, wide: Any, narrow: Any, low: Any, high: Any, n: int) -> None:
    for i in range(n):
        value = narrow(f(wide(low[i]), wide(high[i])))
        low[i] = value
        high[i] = value


@_inline
def _accumulate(f: Any, wide: Any, total: Any, source: Any, n: int) -> None:
    for i in range(n):
        total[i] = f(total[i], wide(source[i]))


@_inline
def _load(wide: Any, total: Any, source: Any, n: int) -> None:
    for i in range(n):
        total[i] = wide(source[i])


@_inline
def _store(narrow: Any, target: Any, total: Any, n: int) -> None:
    for i in range(n):
        target[i] = narrow(total[i])


@_inline
def _each_into(op: int, wide: Any, narrow: Any, target: Any, source: Any, n: int) -> None:
    if op == 0:
        _into(_add, wide, narrow, target, source, n)
    elif op == 1:
        _into(_mul, wide, narrow, target, source, n)
    elif op == 2:
        _into(_min, wide, narrow, target, source, n)
    else:
        _into(_max, wide, narrow, target, source, n)


@_inline
def _each_both(op: int, wide: Any, narrow: Any, low: Any, high: Any, n: int) -> None:
    if op == 0:
        _both(_add, wide, narrow, low, high, n)
    elif op == 1:
        _both(_mul, wide, narrow, low, high, n)
    elif op == 2:
        _both(_min, wide, narrow, low, high, n)
    else:
        _both(_max, wide, narrow, low, high, n)


@_inline
def _each_accumulate(op: int, wide: Any, total: Any, source: Any, n: int) -> None:
    if op == 0:
        _accumulate(_add, wide, total, source, n)
    elif op == 1:
        _accumulate(_mul, wide, total, source, n)
    elif op == 2:
        _accumulate(_min, wide, total, source, n)
    else:
        _accumulate(_max, wide, total, source, n)


@_compiled
def reduce_into(code: int, target: int, source: int, n: int) -> None:
    """Store ``target op source`` in ``target``: n elements each."""
    op = code % _OPS
    kind = code // _OPS
    if kind == 0:
        _each_into(op, _same, _same, _f32(target, n), _f32(source, n), n)
    elif kind == 1:
        _each_into(op, _same, _same, _f64(target, n), _f64(source, n), n)
    elif kind == 2:
        _each_into(op, _same, _same, _i32(target, n), _i32(source, n), n)
    elif kind == 3:
        _each_into(op, _same, _same, _i64(target, n), _i64(source, n), n)
    elif kind == 4:
        _each_into(
            op,
            half_to_float,
            float_to_half,
            _u16(target, n),
            _u16(source, n),
            n,
        )
    else:
        _each_into(
            op,
            _widen_brain,
            _narrow_brain,
            _u16(target, n),
            _u16(source, n),
            n,
        )


@_compiled
def reduce_both(code: int, low: int, high: int, n: int) -> None:
    """Store ``low op high`` in both."""
    op = code % _OPS
    kind = code // _OPS
    if kind == 0:
        _each_both(op, _same, _same, _f32(low, n), _f32(high, n), n)
    elif kind == 1:
        _each_both(op, _same, _same, _f64(low, n), _f64(high, n), n)
    elif kind == 2:
        _each_both(op, _same, _same, _i32(low, n), _i32(high, n), n)
    elif kind == 3:
        _each_both(op, _same, _same, _i64(low, n), _i64(high, n), n)
    elif kind == 4:
        _each_both(
            op,
            half_to_float,
            float_to_half,
            _u16(low, n),
            _u16(high, n),
            n,
        )
    else:
        _each_both(
            op,
            _widen_brain,
            _narrow_brain,
            _u16(low, n),
            _u16(high, n),
            n,
        )


@_compiled
def accumulate(code: int, total: int, source: int, n: int) -> None:
    """Store ``total op source`` in ``total``, whose elements ``ACCUMULATOR`` tells."""
    op = code % _OPS
    kind = code // _OPS
    if kind == 0:
        total_f32 = _f32(total, n)
        _each_accumulate(op, _same, total_f32, _f32(source, n), n)
    elif kind == 1:
        total_f64 = _f64(total, n)
        _each_accumulate(op, _same, total_f64, _f64(source, n), n)
    elif kind == 2:
        total_i32 = _i32(total, n)
        _each_accumulate(op, _same, total_i32, _i32(source, n), n)
    elif kind == 3:
        total_i64 = _i64(total, n)
        _each_accumulate(op, _same, total_i64, _i64(source, n), n)
    elif kind == 4:
        total_f16 = _f32(total, n)
        _each_accumulate(op, half_to_float, total_f16, _u16(source, n), n)
    else:
        total_b16 = _f32(total, n)
        _each_accumulate(op, _widen_brain, total_b16, _u16(source, n), n)


@_compiled
def widen(code: int, total: int, source: int, n: int) -> None:
    """Copy ``source`` to ``total``, an accumulator."""
    kind = code // _OPS
    if kind == 0:
        _load(_same, _f32(total, n), _f32(source, n), n)
    elif kind == 1:
        _load(_same, _f64(total, n), _f64(source, n), n)
    elif kind == 2:
        _load(_same, _i32(total, n), _i32(source, n), n)
    elif kind == 3:
        _load(_same, _i64(total, n), _i64(source, n), n)
    elif kind == 4:
        _load(half_to_float, _f32(total, n), _u16(source, n), n)
    else:
        _load(_widen_brain, _f32(total, n), _u16(source, n), n)


@_compiled
def narrow(code: int, target: int, total: int, n: int) -> None:
    """Round ``total``, an accumulator, to ``target``."""
    kind = code // _OPS
    if kind == 0:
        _store(_same, _f32(target, n), _f32(total, n), n)
    elif kind == 1:
        _store(_same, _f64(target, n), _f64(total, n), n)
    elif kind == 2:
        _store(_same, _i32(target, n), _i32(total, n), n)
    elif kind == 3:
        _store(_same, _i64(target, n), _i64(total, n), n)
    elif kind == 4:
        _store(float_to_half, _u16(target, n), _f32(total, n), n)
    else:
        _store(_narrow_brain, _u16(target, n), _f32(total, n), n)


def code_of(dtype: Any, operation: str) -> int | None:
    """Return the code of a dtype and an operation, or None where there is no kernel for them."""
    name = np.dtype(dtype).name
    if name not in DTYPES or operation not in OPERATIONS or not np.dtype(dtype).isnative:
        return None
    return DTYPES.index(name) * _OPS + OPERATIONS.index(operation)
