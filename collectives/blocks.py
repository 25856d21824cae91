"""Where the blocks of a schedule lie in memory.

A schedule names blocks by number; a `Blocks` maps numbers to views of arrays. So one executor
serves an allreduce (a vector split in parts) and a halo exchange (regions of an array).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from collectives.memory import flat


def share(n: int, part: int, parts: int) -> tuple[int, int]:
    """Return ``(start, stop)`` of a part of ``range(n)`` split evenly; sizes differ by <= 1."""
    return part * n // parts, (part + 1) * n // parts


class Blocks(Protocol):
    """A map from block numbers to views of arrays that all have one dtype."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def view(self, block: int, count: int = 1) -> Any:
        """Return a view of ``count`` consecutive blocks; writing to it writes to the data."""


class Split:
    """A contiguous array cut into ``parts`` consecutive blocks of nearly equal length.

    Args:
        array: C-contiguous, any shape, on the host or on a device.
        parts: the number of blocks; more than elements is fine, then some are empty.

    Raises:
        ValueError: the array is not C-contiguous.
    """

    def __init__(self, array: Any, parts: int) -> None:
        if not array.flags.c_contiguous:
            raise ValueError(
                f"array: of shape {array.shape} with strides {array.strides} is not C-contiguous; "
                "pass a contiguous one, as numpy.ascontiguousarray makes"
            )
        self._flat = flat(array)
        self._parts = parts

    def __len__(self) -> int:
        return self._parts

    def view(self, block: int, count: int = 1) -> Any:
        """Return a 1-D view of ``count`` consecutive blocks.

        Raises:
            ValueError: there are no such blocks.
        """
        if block < 0 or count < 0 or block + count > self._parts:
            raise ValueError(f"blocks {block}..{block + count - 1}: there are {self._parts}")
        n = self._flat.size
        start, stop = (share(n, b, self._parts)[0] for b in (block, block + count))
        return self._flat[start:stop]


class Regions:
    """Any arrays, each one block, of any shape and stride: faces of a domain, rows, buffers."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        if len({a.dtype for a in arrays}) > 1:
            raise ValueError(f"arrays: have several dtypes, {[str(a.dtype) for a in arrays]}")
        self._arrays = list(arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def view(self, block: int, count: int = 1) -> Any:
        """Return the array of a block.

        Raises:
            ValueError: ``count`` is not 1, as regions are not consecutive; or no such block.
        """
        if count != 1:
            raise ValueError(f"count={count}: a region is one block; send them one by one")
        if not 0 <= block < len(self._arrays):
            raise ValueError(f"block {block}: there are {len(self._arrays)}")
        return self._arrays[block]


class Joined:
    """Several `Blocks`, numbered one after the other: an alltoall has what goes and what comes."""

    def __init__(self, *parts: Blocks) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(len(p) for p in self._parts)

    def view(self, block: int, count: int = 1) -> Any:
        """Return a view of ``count`` consecutive blocks of one of the parts."""
        inside = block
        for part in self._parts:
            if 0 <= inside < len(part):
                return part.view(inside, count)
            inside -= len(part)
        raise ValueError(f"block {block}: there are {len(self)}, of all parts")
