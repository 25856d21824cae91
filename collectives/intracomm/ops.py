"""The operations of MPI as operations of ours."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from collectives.arguments import OPS_OF_MPI, REDUCIBLE
from collectives.intracomm.kind import Kind
from collectives.op import Op

_NAMES = {
    getattr(MPI, name).handle: name
    for name in ("LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR", "MAXLOC", "MINLOC")
}
_ALLOWED: dict[tuple[int, int], bool] = {}


def operation(op: MPI.Op, kind: Kind) -> Op | None:
    """Return an operation of MPI as one of ours; None where the library has to do it.

    SUM, PROD, MIN and MAX of the dtypes that our executors reduce are ours. Every other operation
    that commutes (MPI.LAND, MPI.MAXLOC, one of the user) is applied by the library to two local
    buffers, on our schedules. What is None depends only on what MPI requires to be the same on all
    ranks: an operation that does not commute, a datatype that the user has made, or the two do not
    go together, of which the library's own call then tells.

    Args:
        op: the operation.
        kind: of the elements.

    Raises:
        TypeError: it is no operation, or one that knows no floats of 16 bits.
    """
    if not isinstance(op, MPI.Op):
        raise TypeError(f"op: is a {type(op).__name__}; needs an MPI.Op")
    if not kind.predefined:
        return None
    ours = OPS_OF_MPI.get(op.handle)
    if ours is not None and kind.element.name in REDUCIBLE:
        return ours
    if kind.carried:
        raise TypeError(f"op: {kind.element} is only reduced by SUM, PROD, MIN and MAX")
    if not op or not op.Is_commutative() or not _allowed(op, kind):
        return None
    return _local(op, kind.datatype)


def _allowed(op: MPI.Op, kind: Kind) -> bool:
    """Return whether a predefined operation takes this datatype; those of the user take any."""
    if not op.is_predefined:
        return True
    key = op.handle, kind.datatype.handle
    if key not in _ALLOWED:
        try:
            op.Reduce_local(*([bytearray(kind.extent), 1, kind.datatype] for _ in range(2)))
            _ALLOWED[key] = True
        except MPI.Exception:
            _ALLOWED[key] = False
    return _ALLOWED[key]


def _local(op: MPI.Op, datatype: MPI.Datatype) -> Op:
    symmetric = op.is_predefined

    def reduce(xp: Any, first: Any, second: Any, out: Any) -> None:
        # The library stores `in op inout` in `inout`. The bits that an operation of the user gives
        # may depend on which is which, and must be the same on all ranks.
        if out is first and symmetric:
            first, second = second, first
        inout = second if out is second else second.copy()
        op.Reduce_local([first, first.size, datatype], [inout, inout.size, datatype])
        if inout is not out:
            out[...] = inout

    return Op(f"MPI.{_NAMES.get(op.handle, 'Op')}", reduce)
