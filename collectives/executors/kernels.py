"""Compiled reductions, for every dtype and operation, on addresses.

16-bit floats are widened to float32, reduced there, and rounded once at the end. Each kernel is a C
function that is compiled, or taken from numba's cache on disk, when it is first asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import carray, cfunc, njit

from collectives.executors.intrinsics import (
    float_bits,
    float_of,
    float_to_half,
    half_to_float,
    one_nan,
    pointer_f32,
    pointer_f64,
    pointer_i32,
    pointer_i64,
    pointer_u16,
)

OPERATIONS = ("SUM", "PROD", "MIN", "MAX")
"""The operations that have kernels; a kernel is told which by its place here."""

REVERSED = (0, 1, 4, 5)
"""The numbers of the same operations with their operands exchanged: ``source op target``. It
matters where these are equal and yet have other bits: zeros of either sign, and NaNs."""

_inline = njit(nogil=True, inline="always", error_model="numpy")


@_inline
def _add(a: Any, b: Any) -> Any:
    return one_nan(a + b)


@_inline
def _mul(a: Any, b: Any) -> Any:
    return one_nan(a * b)


@_inline
def _min(a: Any, b: Any) -> Any:
    return a if a < b or a != a else b


@_inline
def _max(a: Any, b: Any) -> Any:
    return a if a > b or a != a else b


@_inline
def _min_reversed(a: Any, b: Any) -> Any:
    return b if b < a or b != b else a


@_inline
def _max_reversed(a: Any, b: Any) -> Any:
    return b if b > a or b != b else a


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
def _each(f: Any, wide: Any, narrow: Any, to: Any, target: Any, source: Any, n: int) -> None:
    for i in range(n):
        target[i] = narrow(f(to(target[i]), wide(source[i])))


@_inline
def _reduce(op: int, wide: Any, narrow: Any, to: Any, target: Any, source: Any, n: int) -> None:
    """Reduce ``source``, widened, into ``target``, which is widened by ``to`` and narrowed."""
    if op == 0:
        _each(_add, wide, narrow, to, target, source, n)
    elif op == 1:
        _each(_mul, wide, narrow, to, target, source, n)
    elif op == 2:
        _each(_min, wide, narrow, to, target, source, n)
    elif op == 3:
        _each(_max, wide, narrow, to, target, source, n)
    elif op == 4:
        _each(_min_reversed, wide, narrow, to, target, source, n)
    else:
        _each(_max_reversed, wide, narrow, to, target, source, n)


@_inline
def _convert(f: Any, target: Any, source: Any, n: int) -> None:
    for i in range(n):
        target[i] = f(source[i])


def _float32(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_f32(target), n), carray(pointer_f32(source), n)
    _reduce(op, _same, _same, _same, into, frm, n)


def _float64(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_f64(target), n), carray(pointer_f64(source), n)
    _reduce(op, _same, _same, _same, into, frm, n)


def _int32(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_i32(target), n), carray(pointer_i32(source), n)
    _reduce(op, _same, _same, _same, into, frm, n)


def _int64(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_i64(target), n), carray(pointer_i64(source), n)
    _reduce(op, _same, _same, _same, into, frm, n)


def _float16(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_u16(target), n), carray(pointer_u16(source), n)
    _reduce(op, half_to_float, float_to_half, half_to_float, into, frm, n)


def _float16_accumulate(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_f32(target), n), carray(pointer_u16(source), n)
    _reduce(op, half_to_float, _same, _same, into, frm, n)


def _float16_widen(op: int, target: int, source: int, n: int) -> None:
    _convert(half_to_float, carray(pointer_f32(target), n), carray(pointer_u16(source), n), n)


def _float16_narrow(op: int, target: int, source: int, n: int) -> None:
    _convert(float_to_half, carray(pointer_u16(target), n), carray(pointer_f32(source), n), n)


def _bfloat16(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_u16(target), n), carray(pointer_u16(source), n)
    _reduce(op, _widen_brain, _narrow_brain, _widen_brain, into, frm, n)


def _bfloat16_accumulate(op: int, target: int, source: int, n: int) -> None:
    into, frm = carray(pointer_f32(target), n), carray(pointer_u16(source), n)
    _reduce(op, _widen_brain, _same, _same, into, frm, n)


def _bfloat16_widen(op: int, target: int, source: int, n: int) -> None:
    _convert(_widen_brain, carray(pointer_f32(target), n), carray(pointer_u16(source), n), n)


def _bfloat16_narrow(op: int, target: int, source: int, n: int) -> None:
    _convert(_narrow_brain, carray(pointer_u16(target), n), carray(pointer_f32(source), n), n)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of a dtype, as addresses of C functions ``f(operation, target, source, n)``.

    Attributes:
        reduce: ``target = target op source``, n elements each.
        accumulate: the same, where the target is an accumulator.
        widen: copies elements to an accumulator; 0 where it holds the same dtype.
        narrow: rounds an accumulator to elements; 0 where it holds the same dtype.
        wide: bytes of an element of an accumulator.
    """

    reduce: int
    accumulate: int
    widen: int
    narrow: int
    wide: int


_PLAIN = {"float32": _float32, "float64": _float64, "int32": _int32, "int64": _int64}
_WIDENED = {
    "float16": (_float16, _float16_accumulate, _float16_widen, _float16_narrow),
    "bfloat16": (_bfloat16, _bfloat16_accumulate, _bfloat16_widen, _bfloat16_narrow),
}


def has_kernels(dtype: Any, operation: str) -> bool:
    """Return whether there are kernels for a dtype and an operation."""
    kind = np.dtype(dtype)
    known = kind.name in _PLAIN or kind.name in _WIDENED
    return known and kind.isnative and operation in OPERATIONS


@functools.cache
def kernels_of(name: str) -> Kernels:
    """Return the kernels of a dtype, by its name."""
    if name in _PLAIN:
        address = _compiled(_PLAIN[name])
        return Kernels(address, address, 0, 0, np.dtype(name).itemsize)
    reduce, accumulate, widen, narrow = map(_compiled, _WIDENED[name])
    return Kernels(reduce, accumulate, widen, narrow, 4)


_KEPT: list[Any] = []  # compiled code lives as long as what numba returns for it


def _compiled(function: Any) -> int:
    made = cfunc("void(int64, int64, int64, int64)", cache=True, error_model="numpy")(function)
    _KEPT.append(made)
    return int(made.address)
