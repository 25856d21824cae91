"""Reading samples out of an HDF5 file, without ever holding the file in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcdl.data.source import Source, open_source

__all__ = ["DataError", "HDF5Dataset"]


class DataError(ValueError):
    """A data file is missing, damaged, or does not have what is asked of it."""

    plain = True


class HDF5Dataset:
    """Samples and their targets in an HDF5 file, read a few at a time.

    The file is opened, read-only and without a lock, when it is first needed. A data set that is
    stored in one piece and uncompressed is mapped into memory, so that a sample costs no call into
    HDF5, and the file is closed again; any other is read through HDF5, in the order in which it is
    stored. While HDF5 has the file open, the same process can open it elsewhere only with
    ``locking=False`` too.

    Args:
        path: the file.
        input: name of the data set of samples: shape (N, ...), N >= 1, integers, floats or bools.
            Images are (N, height, width, channels).
        target: name of the data set of targets: shape (N,) or (N, ...), of the same N.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        input: str = "train/input",
        target: str = "train/target",
    ) -> None:
        self.path = os.fspath(path)
        self.input = input
        self.target = target
        self._file: h5py.File | None = None

    def __enter__(self) -> HDF5Dataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Number of samples N.

        Raises:
            DataError: see ``read``.
        """
        return int(self._sources[0].shape[0])

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample, as (height, width, channels)."""
        return self._sources[0].shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the samples that ``read`` returns."""
        return self._sources[0].dtype

    @cached_property
    def classes(self) -> int:
        """Number of classes: the largest target plus one. Reads all targets, in blocks.

        Raises:
            DataError: the targets are not one integer >= 0 for each sample.
        """
        source = self._sources[1]
        if len(source.shape) != 1 or source.dtype.kind not in "biu":
            raise self._error(self.target, f"shape {source.shape}, {source.dtype}: no classes")
        low, high = source.limits()
        if low < 0:
            raise self._error(self.target, f"class {low}; classes must be >= 0")
        return high + 1

    def read(
        self, indices: Sequence[int] | NDArray[Any], rows: slice | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read some samples, and nothing else.

        Args:
            indices: which, from 0; in any order, also more than once, also none.
            rows: which rows of a sample, along its first axis; None reads all. Its bounds must lie
                in the sample and its step must be 1.

        Returns:
            Samples, shape (n, ...), and targets, shape (n, ...), in the order of ``indices``; new
            arrays in the machine's byte order. Integer targets become int64.

        Raises:
            DataError: the file is missing, is not HDF5, or is truncated; a data set is missing,
                empty or of a type without numbers; the two differ in length; reading fails.
            TypeError: ``indices`` are not integers.
            ValueError: an index or a row is out of range.
        """
        samples, targets = self._sources
        wanted = _checked_indices(indices, len(self))
        if rows is not None:
            rows = _checked_rows(rows, samples.shape[1])
        x = self._read(samples, self.input, wanted, rows)
        y = self._read(targets, self.target, wanted, None)
        return x, y.astype(np.int64, copy=False) if y.dtype.kind in "biu" else y

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self.__dict__.pop("_sources", None)

    @cached_property
    def _sources(self) -> tuple[Source, Source]:
        self._file = self._open_file()
        try:
            samples = self._open(self._file, self.input)
            targets = self._open(self._file, self.target)
            if len(samples.shape) < 2:
                raise self._error(self.input, f"shape {samples.shape}; it must be (N, ...)")
            if samples.shape[0] != targets.shape[0]:
                counts = f"{samples.shape[0]} samples but {targets.shape[0]} targets"
                raise self._error(self.input, f"{counts} in {self.target!r}")
        except BaseException:
            self._file.close()
            self._file = None
            raise
        if not (samples.needs_file or targets.needs_file):
            self._file.close()
            self._file = None
        return samples, targets

    def _open_file(self) -> h5py.File:
        if not os.path.isfile(self.path):
            kind = "is not a file" if os.path.exists(self.path) else "no such file"
            raise DataError(f"{self.path}: {kind}")
        try:
            # A lock would make every rank wait for the server of the file system, and there may
            # be none; whoever writes such files renames them into place.
            return h5py.File(self.path, "r", locking=False)
        except OSError as error:
            detail = re.search(r"\((.*)\)", str(error), re.DOTALL)
            text = (detail[1] if detail else str(error)).splitlines()[0]
            if "signature not found" in text:
                text = "not an HDF5 file"
            raise DataError(f"{self.path}: cannot be opened: {text}") from error

    def _open(self, file: h5py.File, name: str) -> Source:
        try:
            found = file[name]
        except (KeyError, ValueError, OSError, RuntimeError) as error:
            if _has_link(file, name):
                raise self._error(name, f"cannot be opened: {error}") from error
            raise self._error(name, f"no such data set; the file has: {_listing(file)}") from error
        if not isinstance(found, h5py.Dataset):
            raise self._error(name, f"not a data set; the file has: {_listing(file)}")
        try:
            kind = found.dtype
        except TypeError as error:
            raise self._error(name, f"a type that NumPy lacks: {error}") from error
        if kind.kind not in "biuf":
            raise self._error(name, f"type {kind}; it must be integers, floats or bools")
        if found.ndim == 0 or found.size == 0:
            raise self._error(name, f"shape {found.shape}: no samples")
        try:
            return open_source(found)
        except (OSError, ValueError) as error:
            raise self._error(name, str(error)) from error

    def _read(
        self, source: Source, name: str, indices: NDArray[np.int64], rows: slice | None
    ) -> NDArray[Any]:
        try:
            return source.read(indices, rows)
        except OSError as error:
            raise self._error(name, f"cannot be read: {error}") from error

    def _error(self, name: str, problem: str) -> DataError:
        return DataError(f"{self.path}: {name!r}: {problem}")


def _checked_indices(indices: Sequence[int] | NDArray[Any], length: int) -> NDArray[np.int64]:
    wanted = np.asarray(indices)
    if wanted.ndim != 1:
        raise ValueError(f"indices has shape {wanted.shape}; it must have one axis")
    if wanted.size == 0:
        return np.empty(0, np.int64)
    if wanted.dtype.kind not in "iu":
        raise TypeError(f"indices are {wanted.dtype}; they must be integers")
    low, high = int(wanted.min()), int(wanted.max())
    if low < 0 or high >= length:
        raise ValueError(f"indices from {low} to {high}; they must be >= 0 and < {length}")
    return wanted.astype(np.int64, copy=False)


def _checked_rows(rows: slice, height: int) -> slice:
    start = 0 if rows.start is None else rows.start
    stop = height if rows.stop is None else rows.stop
    if rows.step not in (None, 1) or not 0 <= start <= stop <= height:
        raise ValueError(f"rows = {rows}; it must be 0 <= start <= stop <= {height}, step 1")
    return slice(start, stop)


def _has_link(file: h5py.File, name: str) -> bool:
    """Tell whether a file has this name at all, whatever is behind it."""
    try:
        return file.get(name, getlink=True) is not None
    except (KeyError, ValueError, RuntimeError):
        return False


def _listing(file: h5py.File, limit: int = 20) -> str:
    """List the data sets of a file for a message."""
    names: list[str] = []
    with suppress(RuntimeError):  # in a damaged file, up to the damage
        file.visit(names.append)
    groups = {name.rpartition("/")[0] for name in names}
    shown = [repr(name) for name in names if name not in groups]
    return ", ".join(shown[:limit] + ["..."] * (len(shown) > limit)) or "nothing"
