"""Which part of a global array a process holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from collectives.blocks import share

Span: TypeAlias = tuple[int, int]
"""Positions ``start .. stop - 1`` of one dimension."""


@dataclass(frozen=True)
class Layout:
    """A global array in blocks: each dimension is split evenly over a number of parts.

    Lengths of parts differ by at most one; a dimension shorter than its number of parts has empty
    ones. A process is told by its index, which has one entry for each dimension.

    Attributes:
        shape: of the global array.
        parts: the number of parts of each dimension; 1 where it is whole.

    Raises:
        ValueError: the lengths do not fit, or a value is out of range.
    """

    shape: tuple[int, ...]
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.shape):
            raise ValueError(
                f"parts={self.parts}: needs {len(self.shape)} numbers, one for each dimension of "
                f"the shape {self.shape}"
            )
        if min(self.shape, default=0) < 0 or min(self.parts, default=1) < 1:
            raise ValueError(
                f"shape={self.shape}, parts={self.parts}: needs lengths of 0 or more and 1 part "
                f"or more"
            )

    def spans(self, dimension: int) -> list[Span]:
        """Where each part of a dimension starts and stops."""
        length, parts = self.shape[dimension], self.parts[dimension]
        return [share(length, part, parts) for part in range(parts)]

    def slices(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """The block of a process: what to index a global array with.

        Args:
            index: which part of each dimension.

        Returns:
            One slice for each dimension.

        Raises:
            ValueError: there is no such block.
        """
        if len(index) != len(self.parts) or not all(
            0 <= i < parts for i, parts in zip(index, self.parts, strict=True)
        ):
            raise ValueError(f"index={index}: there are {self.parts} parts")
        triples = zip(self.shape, index, self.parts, strict=True)
        return tuple(slice(*share(length, i, parts)) for length, i, parts in triples)

    def local_shape(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the block of a process."""
        return tuple(s.stop - s.start for s in self.slices(index))
