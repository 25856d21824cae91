"""Read the buffer arguments of mpi4py: what it takes, in the ways in which it takes it.

A block argument is one run of elements: ``buf``, ``(buf, type)``, ``(buf, count)``, ``(buf, count,
type)``, ``(buf, (count, displ), type)`` or ``(buf, count, displ, type)``. A vector argument has one
run for each rank: the same with counts and displacements. Lists stand for tuples, type strings for
datatypes; what is left out is derived from the length and the format of the buffer.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

from collectives.intracomm.kind import Kind, kind_of, kind_of_code
from collectives.intracomm.memory import memory_of


@dataclass(frozen=True, slots=True)
class Message:
    """A buffer argument.

    Attributes:
        buffer: the object that holds the memory, or MPI.BOTTOM.
        memory: its bytes (see `collectives.intracomm.memory.memory_of`); None of MPI.BOTTOM.
        kind: the datatype.
        counts: the elements of each run: one run, or one for each rank.
        displs: where each begins, in elements.
    """

    buffer: Any
    memory: Any
    kind: Kind
    counts: Sequence[int]
    displs: Sequence[int]


def means_in_place(spec: Any) -> bool:
    """Return whether an argument says that the data is in the other buffer."""
    return spec is None or spec is MPI.IN_PLACE


def rank_of(value: Any) -> int:
    """Return the number of a root; what is no whole number is cut, as mpi4py does.

    Raises:
        TypeError: it is no number.
    """
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "__int__"):
            raise
        return int(value)


def block_message(spec: Any, writable: bool, blocks: int = 1) -> Message:
    """Read a block argument.

    Args:
        spec: what the user passed.
        writable: the memory must not be read-only.
        blocks: where no count is given, the buffer holds so many runs of ``count`` elements.

    Raises:
        TypeError, ValueError, KeyError, BufferError: where mpi4py raises it.
    """
    buffer, count, displ, datatype = _unpacked(spec, vector=False)
    memory, kind = _memory(buffer, datatype, writable)
    first = 0 if displ is None else operator.index(displ)
    if first < 0:
        raise ValueError(f"message: negative displacement {first}")
    length = 0 if memory is None else len(memory)
    if first:
        if kind.extent <= 0:
            raise ValueError(
                f"message: cannot handle displacement, datatype extent {kind.extent} "
                f"(lb:{kind.lower}, ub:{kind.lower + kind.extent})"
            )
        if memory is not None and first * kind.extent > length:
            raise ValueError(
                f"message: displacement {first} out of bounds, number of datatype entries "
                f"{length // kind.extent}"
            )
        length -= first * kind.extent
    if count is None:
        total = _entries(kind, length)
        if blocks > 1 and total % blocks:
            raise ValueError(
                f"message: cannot infer count, number of entries {total} is not a multiple of "
                f"required number of blocks {blocks}"
            )
        number = total // max(blocks, 1)
    else:
        number = operator.index(count)
        if number < 0:
            raise ValueError(f"message: negative count {number}")
        if number > 0 and buffer is None:
            raise ValueError(f"message: buffer is None but count is {number}")
    return Message(MPI.BOTTOM if buffer is None else buffer, memory, kind, (number,), (first,))


def vector_message(spec: Any, writable: bool, blocks: int) -> Message:
    """Read a vector argument of ``blocks`` runs; errors as for `block_message`."""
    buffer, counts, displs, datatype = _unpacked(spec, vector=True)
    memory, kind = _memory(buffer, datatype, writable)
    if counts is None:
        total = _entries(kind, 0 if memory is None else len(memory))
        lengths = [total // blocks + (total % blocks > i) for i in range(blocks)]
    elif _is_number(counts):
        lengths = [operator.index(counts)] * blocks
    else:
        lengths = _numbers(counts, blocks)
    if min(lengths) < 0:
        raise ValueError(f"message: negative count {min(lengths)}")
    if displs is None:
        starts, end = [], 0
        for n in lengths:
            starts.append(end)
            end += n
    elif _is_number(displs):
        starts = [operator.index(displs) * i for i in range(blocks)]
    else:
        starts = _numbers(displs, blocks)
    return Message(MPI.BOTTOM if buffer is None else buffer, memory, kind, lengths, starts)


def _unpacked(spec: Any, vector: bool) -> tuple[Any, Any, Any, Any]:
    """Return the buffer, and the count, displacement and datatype; None where they are left out."""
    if not isinstance(spec, (list, tuple)):
        if means_in_place(spec) or isinstance(spec, (int, str)):
            raise TypeError("message: expecting buffer or list/tuple")
        return spec, None, None, None
    pair = tuple if vector else (list, tuple)  # a list of counts is no pair of counts and displs
    count = displ = datatype = None
    if len(spec) == 2:
        buffer, count = spec
        if isinstance(count, (MPI.Datatype, str)):
            count, datatype = None, count
        elif isinstance(count, pair):
            count, displ = count
    elif len(spec) == 3:
        buffer, count, datatype = spec
        if isinstance(count, pair):
            count, displ = count
    elif len(spec) == 4:
        buffer, count, displ, datatype = spec
    else:
        raise ValueError("message: expecting 2 to 4 items")
    return buffer, count, displ, datatype


def _memory(buffer: Any, datatype: Any, writable: bool) -> tuple[Any, Kind]:
    if buffer is None or buffer is MPI.BOTTOM:
        memory, code = None, datatype
    else:
        memory, code = memory_of(buffer, writable)
    if isinstance(datatype, MPI.Datatype):
        return memory, kind_of(datatype)
    return memory, kind_of_code(code if datatype is None else datatype)


def _entries(kind: Kind, length: int) -> int:
    """Return how many elements fill so many bytes."""
    if length <= 0:
        return 0
    if kind.extent <= 0 or length % kind.extent:
        reason = "" if kind.extent <= 0 else f"buffer length {length} is not a multiple of "
        raise ValueError(
            f"message: cannot infer count, {reason}datatype extent {kind.extent} "
            f"(lb:{kind.lower}, ub:{kind.lower + kind.extent})"
        )
    return length // kind.extent


def _is_number(value: Any) -> bool:
    """Return whether this is one whole number: an array of one element is several."""
    if isinstance(value, int):
        return True
    try:
        len(value)
    except TypeError:
        return hasattr(value, "__index__")
    return False


def _numbers(values: Any, blocks: int) -> list[int]:
    numbers = [operator.index(v) for v in values]
    if len(numbers) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(numbers)}")
    return numbers
