"""Copies whose target is read by another core next: stores that go past this core's cache.

An ordinary store to memory that another core has read must first take the line away from it, one
round trip between cores after the other. Non-temporal stores do not: on the machine where this was
measured (two virtual cores of an EPYC) 64 KiB took 2.5 us instead of 8, and 38 when the two cores
were far apart.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from collectives.executors.intrinsics import copy_bytes

STREAM_BYTES = 4096
"""Shorter copies are ordinary ones."""

_WIDTH, _COUNT = 32, 4  # bytes of a store, and stores at a time
_STEP = _WIDTH * _COUNT


@intrinsic
def _stream_step(context: Any, target: Any, source: Any) -> Any:
    """Copy ``_STEP`` bytes; the target is aligned to ``_WIDTH``."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        vector = ir.VectorType(i64, _WIDTH // 8).as_pointer()
        to, frm = (
            [
                builder.inttoptr(builder.add(base, ir.Constant(i64, _WIDTH * i)), vector)
                for i in range(_COUNT)
            ]
            for base in args
        )
        values = [builder.load(pointer, align=1) for pointer in frm]
        hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        for value, pointer in zip(values, to, strict=True):
            builder.store(value, pointer, align=_WIDTH).set_metadata("nontemporal", hint)
        return ctx.get_dummy_value()

    return types.none(types.int64, types.int64), code


@intrinsic
def _drain(context: Any) -> Any:
    """Let no later store overtake non-temporal ones."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        if str(builder.module.triple).startswith("x86_64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            fence = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence")
            builder.call(fence, [])
        else:
            builder.fence("seq_cst")
        return ctx.get_dummy_value()

    return types.none(), code


@njit(nogil=True, cache=True, error_model="numpy")
def stream_bytes(target: int, source: int, nbytes: int) -> None:
    """Copy memory that this core will not read again soon; the two do not overlap."""
    done = 0
    if nbytes >= STREAM_BYTES:
        done = (-target) % _WIDTH
        copy_bytes(target, source, done)
        while done + _STEP <= nbytes:
            _stream_step(target + done, source + done)
            done += _STEP
        _drain()
    copy_bytes(target + done, source + done, nbytes - done)
