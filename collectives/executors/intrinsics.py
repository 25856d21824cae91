"""What compiled code needs beyond numba: atomic flags, C calls by address, 16-bit floats.

Importing this module imports numba; everything else imports it when a native plan is first made.
C functions are called by an address that is passed at run time, so that the compiled code can be
kept on disk and serves every MPI library.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


@intrinsic
def load_acquire(context: Any, address: Any) -> Any:
    """Load an int64; what its writer wrote before `store_release` is seen after it."""

    def code(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(args[0], _I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), code


@intrinsic
def store_release(context: Any, address: Any, value: Any) -> Any:
    """Store an int64, after everything that was written before."""

    def code(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], _I64.as_pointer())
        builder.store_atomic(args[1], pointer, "release", 8)
        return target.get_dummy_value()

    return types.none(types.int64, types.int64), code


@intrinsic
def relax(context: Any) -> Any:
    """Tell the processor that this is a loop that waits (nothing where it has no such hint)."""

    def code(target: Any, builder: Any, signature: Any, args: Any) -> Any:
        machine = str(builder.module.triple).split("-")[0]
        if machine == "x86_64":
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        elif machine == "aarch64":
            kind = ir.FunctionType(ir.VoidType(), [_I32])
            name = "llvm.aarch64.hint"
            hint = cgutils.get_or_insert_function(builder.module, kind, name)
            builder.call(hint, [ir.Constant(_I32, 1)])
        return target.get_dummy_value()

    return types.none(), code


def _pointer(target: Any, element: Any) -> Any:
    """Return the code that turns an int64 into a pointer to an element type of numba."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.CPointer(element)))

    return types.CPointer(element)(types.int64), code


@intrinsic
def pointer_f32(context: Any, address: Any) -> Any:
    """Return the address as a pointer to float32."""
    return _pointer(context, types.float32)


@intrinsic
def pointer_f64(context: Any, address: Any) -> Any:
    """Return the address as a pointer to float64."""
    return _pointer(context, types.float64)


@intrinsic
def pointer_i32(context: Any, address: Any) -> Any:
    """Return the address as a pointer to int32."""
    return _pointer(context, types.int32)


@intrinsic
def pointer_i64(context: Any, address: Any) -> Any:
    """Return the address as a pointer to int64."""
    return _pointer(context, types.int64)


@intrinsic
def pointer_u16(context: Any, address: Any) -> Any:
    """Return the address as a pointer to uint16."""
    return _pointer(context, types.uint16)


@intrinsic
def copy_bytes(context: Any, target: Any, source: Any, nbytes: Any) -> Any:
    """Copy memory, as memcpy does; the two do not overlap."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, frm = (builder.inttoptr(a, _I8.as_pointer()) for a in args[:2])
        cgutils.raw_memcpy(builder, to, frm, args[2], 1)
        return ctx.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), code


@intrinsic
def clear_bytes(context: Any, target: Any, nbytes: Any) -> Any:
    """Set memory to zero."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = builder.inttoptr(args[0], _I8.as_pointer())
        cgutils.memset(builder, to, args[1], 0)
        return ctx.get_dummy_value()

    return types.none(types.int64, types.int64), code


@intrinsic
def half_to_float(context: Any, bits: Any) -> Any:
    """Return the float32 that the bits (uint16) of a float16 stand for."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), code


@intrinsic
def float_to_half(context: Any, value: Any) -> Any:
    """Return the bits (uint16) of the float16 nearest to a float32, ties to even."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), _I16)

    return types.uint16(types.float32), code


@intrinsic
def float_bits(context: Any, value: Any) -> Any:
    """Return the bits (uint32) of a float32."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], _I32)

    return types.uint32(types.float32), code


@intrinsic
def float_of(context: Any, bits: Any) -> Any:
    """Return the float32 that has these bits (uint32)."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), code


@intrinsic
def one_nan(context: Any, value: Any) -> Any:
    """Return a number; whatever NaN it is becomes one and the same. Integers are as they are."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        if isinstance(value, types.Integer):
            return args[0]
        nan = ir.Constant(args[0].type, float("nan"))
        return builder.select(builder.fcmp_unordered("uno", args[0], args[0]), nan, args[0])

    return value(value), code


@intrinsic
def call_kernel(context: Any, f: Any, op: Any, target: Any, source: Any, n: Any) -> Any:
    """Call a kernel (see `collectives.executors.kernels`) at its address."""

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return ctx.get_dummy_value()

    return types.none(*(types.int64,) * 5), code


def _call(kinds: str) -> Any:
    """Return signature and code of a call of ``int f(...)`` at an address.

    ``kinds`` has a letter for each argument: "i" for a C int, "p" for a pointer or a handle.
    """
    takes = [_I32 if kind == "i" else _I64 for kind in kinds]

    def code(ctx: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = builder.inttoptr(args[0], ir.FunctionType(_I32, takes).as_pointer())
        given = [
            builder.trunc(a, _I32) if kind == "i" else a
            for kind, a in zip(kinds, args[1:], strict=True)
        ]
        return builder.sext(builder.call(function, given), _I64)

    return types.int64(*(types.int64,) * (1 + len(kinds))), code


@intrinsic
def call_sendrecv(
    context: Any, f: Any, sb: Any, sn: Any, st: Any, to: Any, stag: Any,
    rb: Any, rn: Any, rt: Any, frm: Any, rtag: Any, comm: Any, status: Any,
) -> Any:  # fmt: skip
    """Call MPI_Sendrecv."""
    return _call("pipiipipiipp")


@intrinsic
def call_post(
    context: Any, f: Any, buffer: Any, n: Any, datatype: Any, peer: Any, tag: Any, comm: Any,
    request: Any,
) -> Any:  # fmt: skip
    """Call MPI_Isend or MPI_Irecv."""
    return _call("pipiipp")


@intrinsic
def call_waitall(context: Any, f: Any, n: Any, requests: Any, statuses: Any) -> Any:
    """Call MPI_Waitall."""
    return _call("ipp")


@intrinsic
def call_testall(context: Any, f: Any, n: Any, requests: Any, flag: Any, statuses: Any) -> Any:
    """Call MPI_Testall."""
    return _call("ippp")
