"""Where the blocks of a schedule lie in memory.

A schedule names blocks by number; a `Blocks` maps numbers to views of arrays. So one executor
serves an allreduce (a vector split in parts) and a halo exchange (regions of an array).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

from collectives.memory import flat


def share(n: int, part: int, parts: int) -> tuple[int, int]:
    """Return ``(start, stop)`` of a part of ``range(n)`` split evenly; sizes differ by <= 1."""
    return part * n // parts, (part + 1) * n // parts


class Blocks(Protocol):
    """A map from block numbers to views of arrays that all have one dtype."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def views(self, block: int, count: int = 1) -> list[Any]:
        """Return the memory of ``count`` consecutive blocks, in order, in as few arrays as can be.

        They are views: writing to them writes to the data.
        """


class Split:
    """A contiguous array cut into ``parts`` consecutive blocks of nearly equal length.

    Args:
        array: C-contiguous, any shape, on the host or on a device.
        parts: the number of blocks; more than elements is fine, then some are empty.
        bounds: where blocks are of other lengths: ``parts + 1`` ascending positions from 0 to the
            number of elements.

    Raises:
        ValueError: the array is not C-contiguous, or the bounds do not fit.
    """

    def __init__(self, array: Any, parts: int, bounds: Sequence[int] | None = None) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(
                f"array: of shape {array.shape} with strides {array.strides} is not C-contiguous; "
                "pass a contiguous one, as numpy.ascontiguousarray makes"
            )
        self._flat = flat(array)
        self._parts = parts
        self._bounds = bounds
        if bounds is not None and (
            len(bounds) != parts + 1
            or bounds[0] != 0
            or bounds[-1] != self._flat.size
            or any(a > b for a, b in pairwise(bounds))
        ):
            raise ValueError(
                f"bounds={list(bounds)}: needs {parts + 1} ascending positions from 0 to "
                f"{self._flat.size}"
            )

    def __len__(self) -> int:
        return self._parts

    def views(self, block: int, count: int = 1) -> list[Any]:
        """Return one 1-D view of ``count`` consecutive blocks.

        Raises:
            ValueError: there are no such blocks.
        """
        if block < 0 or count < 0 or block + count > self._parts:
            raise ValueError(f"blocks {block}..{block + count - 1}: there are {self._parts}")
        ends = block, block + count
        if self._bounds is None:
            start, stop = (share(self._flat.size, b, self._parts)[0] for b in ends)
        else:
            start, stop = (self._bounds[b] for b in ends)
        return [self._flat[start:stop]]


class Regions:
    """Any arrays, each one block, of any shape and stride: faces of a domain, rows, buffers."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        if len({a.dtype for a in arrays}) > 1:
            raise ValueError(f"arrays: have several dtypes, {[str(a.dtype) for a in arrays]}")
        self._arrays = list(arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def views(self, block: int, count: int = 1) -> list[Any]:
        """Return the arrays of ``count`` consecutive blocks.

        Raises:
            ValueError: there are no such blocks.
        """
        if block < 0 or count < 0 or block + count > len(self._arrays):
            raise ValueError(f"blocks {block}..{block + count - 1}: there are {len(self._arrays)}")
        return self._arrays[block : block + count]


class Joined:
    """Several `Blocks`, numbered one after the other: an alltoall has what goes and what comes."""

    def __init__(self, *parts: Blocks) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(p) for p in self._parts)

    def views(self, block: int, count: int = 1) -> list[Any]:
        """Return the memory of ``count`` consecutive blocks, which may be of several parts.

        Raises:
            ValueError: there are no such blocks.
        """
        if block < 0 or count < 0 or block + count > len(self):
            raise ValueError(f"blocks {block}..{block + count - 1}: there are {len(self)}")
        found: list[Any] = []
        first = 0
        for part in self._parts:
            start, stop = max(block - first, 0), min(block + count - first, len(part))
            if start < stop:
                found += part.views(start, stop - start)
            first += len(part)
        return found
