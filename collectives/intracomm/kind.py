"""What an MPI datatype means for us: how long it is, and what numpy calls it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

BFLOAT16 = "bfloat16"
"""Stands for its format, for which Python has no character."""


@dataclass(frozen=True, slots=True)
class Kind:
    """An MPI datatype.

    Attributes:
        datatype: the datatype itself.
        size: bytes of data in one element.
        extent: bytes from one element to the next.
        lower: where the first byte of an element lies, relative to its address.
        predefined: it comes with MPI; so whoever names it means the same on all ranks.
        element: what numpy calls it; bytes of the extent where numpy has no name for it.
        carried: MPI has no datatype for such elements; ``datatype`` only moves them.
    """

    datatype: MPI.Datatype
    size: int
    extent: int
    lower: int
    predefined: bool
    element: np.dtype[Any]
    carried: bool = False

    @property
    def dense(self) -> bool:
        """The elements of a buffer are its bytes, one after the other, and nothing in between."""
        return self.predefined and self.lower == 0 and self.size == self.extent


_KINDS: dict[int, Kind] = {}


def kind_of(datatype: MPI.Datatype) -> Kind:
    """Describe a datatype.

    Raises:
        MPI.Exception: it is MPI.DATATYPE_NULL, or freed.
    """
    known = _KINDS.get(datatype.handle)
    if known is not None:
        return known
    lower, extent = datatype.Get_extent()
    size = datatype.Get_size()
    predefined = datatype.is_predefined
    element = np.dtype((np.void, max(extent, 0)))
    if predefined:
        try:
            named = np.dtype(datatype.typechar)
        except TypeError:
            named = element
        if named.itemsize == size == extent and named.kind in "biufc":
            element = named
    kind = Kind(datatype, size, extent, lower, predefined, element)
    if predefined:  # the handles of others are given out again after they are freed
        _KINDS[datatype.handle] = kind
    return kind


class _Kept(MPI.Datatype):
    """A datatype that is freed with the last reference to it."""

    def __del__(self) -> None:
        if MPI is not None and not MPI.Is_finalized():
            self.Free()


def kept(datatype: MPI.Datatype) -> MPI.Datatype:
    """Return a copy of a datatype of the user, who may free theirs before a call is over.

    It is committed also where theirs is not: what that breaks would be found only in the middle of
    a call.
    """
    return _Kept(datatype.Dup()).Commit()


def kind_of_code(code: str) -> Kind:
    """Describe the datatype of a type string, or of the format of a buffer.

    Floats of 16 bits are taken also where MPI has no datatype for them.

    Raises:
        KeyError: there is none.
    """
    try:
        return kind_of(MPI.Datatype.fromcode(code))
    except ValueError:
        if code == "e":
            element = np.dtype(np.float16)
        elif code == BFLOAT16:
            import ml_dtypes

            element = np.dtype(ml_dtypes.bfloat16)
        else:
            raise KeyError(f"cannot map {code!r} to MPI datatype") from None
    return Kind(MPI.UINT16_T, 2, 2, 0, True, element, carried=True)
