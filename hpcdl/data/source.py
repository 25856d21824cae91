"""Two ways to read samples out of an HDF5 data set: through a memory map, and through HDF5."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import prod
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

__all__ = ["Source", "open_source"]

_SPAN = 8 * 2**20  # bytes read by one call into HDF5, at most, if a sample is not larger


class Source(ABC):
    """An array of samples that lies in a file.

    Attributes:
        shape: (N, ...), N >= 1.
        dtype: in the machine's byte order.
        needs_file: whether the HDF5 file must stay open.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    needs_file: bool

    @abstractmethod
    def read(self, indices: NDArray[np.int64], rows: slice | None) -> NDArray[Any]:
        """Return the samples with these indices, and of each only these rows, as a new array."""

    @abstractmethod
    def limits(self) -> tuple[int, int]:
        """Return the smallest and the largest value of an integer source, read in blocks."""


def open_source(dataset: h5py.Dataset) -> Source:
    """Choose how to read a data set: one that is stored as a plain array is mapped.

    Raises:
        ValueError: the file ends before the data set does.
    """
    properties = dataset.id.get_create_plist()
    offset = dataset.id.get_offset()
    plain = (
        properties.get_layout() == h5py.h5d.CONTIGUOUS
        and properties.get_external_count() == 0
        and offset is not None
        and dataset.id.get_type().equal(h5py.h5t.py_create(dataset.dtype))
    )
    return _Mapped(dataset, offset) if plain else _Stored(dataset)


class _Mapped(Source):
    """A data set that is one contiguous piece of its file."""

    needs_file = False

    def __init__(self, dataset: h5py.Dataset, offset: int) -> None:
        # Behind an external link the data set is in another file than the one that was opened.
        filename = dataset.file.filename
        size = prod(dataset.shape) * dataset.dtype.itemsize
        actual = os.path.getsize(filename)
        if actual < offset + size:
            raise ValueError(
                f"{filename} is truncated: it has {actual} bytes and needs {offset + size}"
            )
        self._array = np.memmap(filename, dataset.dtype, "r", offset, dataset.shape)
        self.shape = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")

    def read(self, indices: NDArray[np.int64], rows: slice | None) -> NDArray[Any]:
        found = self._array[indices] if rows is None else self._array[indices, rows]
        return np.asarray(found).astype(self.dtype, copy=False)

    def limits(self) -> tuple[int, int]:
        return int(self._array.min()), int(self._array.max())


class _Stored(Source):
    """A data set that only HDF5 can read: in chunks, compressed, or of an unusual type."""

    needs_file = True

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self.shape = dataset.shape
        self.dtype = dataset.dtype.newbyteorder("=")

    def read(self, indices: NDArray[np.int64], rows: slice | None) -> NDArray[Any]:
        where: tuple[slice, ...] = () if rows is None else (rows,)
        height = () if rows is None else (rows.stop - rows.start,)
        sample = height + self.shape[1 + len(height) :]
        out = np.empty((len(indices), *sample), self.dtype)
        sample_bytes = max(1, prod(sample) * self.dtype.itemsize)
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        for begin, end in self._spans(ordered, max(1, _SPAN // sample_bytes)):
            first, last = int(ordered[begin]), int(ordered[end - 1])
            block = self._dataset[(slice(first, last + 1), *where)]
            out[order[begin:end]] = block[ordered[begin:end] - first]
        return out

    def _spans(self, ordered: NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
        """Cut sorted indices into the runs to read at once, none longer than ``limit`` samples.

        A run takes in neighbours, and all samples of one chunk: a chunk must be read and
        decompressed whole even for one sample of it.
        """
        chunk = self._dataset.chunks[0] if self._dataset.chunks else 1
        numbers: list[int] = ordered.tolist()
        begin = 0
        for i in range(1, len(numbers)):
            last, this = numbers[i - 1], numbers[i]
            near = this - last <= 1 or this // chunk == last // chunk
            if not near or this - numbers[begin] >= limit:
                yield begin, i
                begin = i
        if numbers:
            yield begin, len(numbers)

    def limits(self) -> tuple[int, int]:
        step = max(1, _SPAN // self.dtype.itemsize)
        low, high = [], []
        for start in range(0, self.shape[0], step):
            block = self._dataset[start : start + step]
            low.append(int(block.min()))
            high.append(int(block.max()))
        return min(low), max(high)
