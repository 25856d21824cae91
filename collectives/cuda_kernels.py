"""Sums of 16-bit floats on a device: in float32, rounded to nearest even once.

cupy compiles the source with NVRTC when it is first used. It includes no header, so it needs no
CUDA toolkit, and bfloat16 works with every cupy.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from collectives.op import Op

_CONVERSIONS = """
__device__ __forceinline__ float from_float16(unsigned short x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

__device__ __forceinline__ unsigned short to_float16(float x) {
    unsigned short y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float from_bfloat16(unsigned short x) {
    return __uint_as_float((unsigned int)x << 16);
}

__device__ __forceinline__ unsigned short to_bfloat16(float x) {
    unsigned int bits = __float_as_uint(x);
    if (x != x) return (unsigned short)(bits >> 16 | 0x40);  // a quiet NaN
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
"""

_KERNEL = """
extern "C" __global__ void {op}_{dtype}(
    const unsigned short* first, const unsigned short* second, unsigned short* out,
    unsigned long long n)
{{
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
         i < n; i += step) {{
        const float a = from_{dtype}(first[i]), b = from_{dtype}(second[i]);
        out[i] = to_{dtype}({result});
    }}
}}
"""

# A NaN wins, as in numpy.
_RESULTS = {
    "SUM": "a + b",
    "PROD": "a * b",
    "MIN": "a <= b || a != a ? a : b",
    "MAX": "a >= b || a != a ? a : b",
}

DTYPES = ("float16", "bfloat16")
"""The dtypes that have kernels."""

NAMES = tuple(f"{op}_{dtype}" for op in _RESULTS for dtype in DTYPES)
"""The kernels: an operation and a dtype each."""

SOURCE = _CONVERSIONS + "".join(
    _KERNEL.format(op=op, dtype=dtype, result=result)
    for op, result in _RESULTS.items()
    for dtype in DTYPES
)
"""CUDA C++ of all kernels: ``(first, second, out, n)``, arrays of ``n`` values as 16-bit words."""

_THREADS, _MOST_GROUPS = 256, 4096


def reduce(op: Op, xp: Any, first: Any, second: Any, out: Any) -> None:
    """Reduce two arrays into ``out``, which is one of them, by a kernel where there is one.

    Args:
        op: the operation; one of the user's own is called as it is.
        xp: namespace of the arrays.
        first: of the lower ranks.
        second: of the same shape and dtype.
        out: ``first`` or ``second``.
    """
    dtype = np.dtype(out.dtype).name
    if getattr(xp, "__name__", "") != "cupy" or dtype not in DTYPES or not op.is_built_in:
        op(xp, first, second, out)
        return
    words = [xp.ascontiguousarray(x).view(xp.uint16) for x in (first, second)]
    target = out.view(xp.uint16) if out.flags.c_contiguous else xp.empty_like(words[0])
    groups = min(-(-out.size // _THREADS), _MOST_GROUPS)
    kernel = _module().get_function(f"{op.name}_{dtype}")
    kernel((groups,), (_THREADS,), (*words, target, np.uint64(out.size)))
    if not out.flags.c_contiguous:
        out[...] = target.view(out.dtype)


@lru_cache(maxsize=1)
def _module() -> Any:
    import cupy

    return cupy.RawModule(code=SOURCE)
