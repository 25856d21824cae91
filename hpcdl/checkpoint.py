"""Checkpoints: named arrays and a few values in one HDF5 file that is whole, or refused.

A file begins with an HDF5 user block of 512 bytes, which HDF5 itself ignores, and so can any HDF5
tool. It holds two lines of text and zeros: the format's name, and the SHA-256 of all bytes that
follow. So no byte of the file can change unseen, and a damaged file is found out before HDF5 has
looked at it. Behind it:

    /attributes   the values, as one string of JSON
    /tensors/...  the arrays, each contiguous and uncompressed

Nothing here knows MPI: a checkpoint holds global arrays, and one process writes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import warnings
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcdl.data.atomic import TEMPORARY_SUFFIX, hdf5_writer, replacing

__all__ = ["CheckpointDir", "CheckpointError", "read", "write"]

Tensors = Mapping[str, NDArray[Any]]
Value = int | float | str
Contents = tuple[dict[str, NDArray[Any]], dict[str, Value]]

_FORMAT = "hpcdl checkpoint 1"
_HEADER_SIZE = 512  # the smallest user block
_BLOCK = 2**20  # bytes hashed at a time
_DIGITS = 12  # of the step in a file's name
_KINDS = "biufc"  # bool, integers, floats, complex


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or what is there is not a whole checkpoint.

    Attributes:
        path: the file.
        cause: what is wrong with it.
        plain: the message is for the user, and is printed without a traceback.
    """

    plain = True

    def __init__(self, path: str | os.PathLike[str], cause: str) -> None:
        super().__init__(f"{os.fspath(path)}: {cause}")
        self.path = Path(path)
        self.cause = cause


Report = Callable[[CheckpointError], object]
Check = Callable[[int, dict[str, NDArray[Any]], dict[str, Value]], str | None]


def write(path: str | os.PathLike[str], tensors: Tensors, attrs: Mapping[str, Value]) -> None:
    """Write a checkpoint, which appears under its name only when it is whole and on the disk.

    Args:
        path: the file to create or to replace. Its folder is made if it is not there.
        tensors: name -> array of bools, integers, floats or complex numbers, of any shape. A name
            may have slashes, which make groups in the file.
        attrs: name -> int of any size, float or str.

    Raises:
        CheckpointError: the file cannot be written, as on a full disk. Then nothing has changed.
        TypeError: an array or value is of another type.
        ValueError: a name is not possible in HDF5.
    """
    _check(tensors, attrs)
    text = json.dumps({name: _plain(value) for name, value in attrs.items()}, sort_keys=True)
    try:
        with replacing(path) as file:
            with hdf5_writer(file, userblock_size=_HEADER_SIZE) as h5:
                # A string of fixed length lies in the file like an array: its size can be checked
                # before it is read, unlike that of a variable-length one.
                h5["attributes"] = np.array(text.encode(), h5py.string_dtype("utf-8", len(text)))
                group = h5.create_group("tensors")
                for name in sorted(tensors):
                    group.create_dataset(name, data=np.asarray(tensors[name], order="C"))
            os.pwrite(file.fileno(), _header(file), 0)
    except OSError as error:
        cause = error.strerror or str(error)
        raise CheckpointError(path, f"cannot be written: {cause}") from error


def read(path: str | os.PathLike[str]) -> Contents:
    """Read a checkpoint, after checking all of it.

    Memory is taken only for bytes that the file really has, whatever it claims.

    Args:
        path: the file.

    Returns:
        The arrays and values that ``write`` was given, of the same types, shapes and byte orders.

    Raises:
        CheckpointError: the file is missing, cut, damaged or not a checkpoint.
    """
    try:
        with open(path, "rb", buffering=0, opener=_open_regular) as file:
            start = file.read(_HEADER_SIZE)
            if not start.startswith(_FORMAT.encode() + b"\n"):
                raise CheckpointError(path, f"not a file that begins with {_FORMAT!r}")
            if start != _header(file):
                raise CheckpointError(path, "damaged: its content does not match its checksum")
        with h5py.File(path, "r", locking=False) as h5:
            return _contents(h5, os.path.getsize(path))
    except CheckpointError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CheckpointError(path, f"cannot be read: {cause}") from error


class CheckpointDir:
    """The checkpoints of one run, in a folder: ``step-000000000042.h5`` and so on.

    Only one process may use it at a time.

    Args:
        path: the folder; made when the first checkpoint is saved.
        keep: how many checkpoints to keep, >= 1.

    Raises:
        ValueError: ``keep`` is too small.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep = {keep}; it must be >= 1")
        self.path = Path(path)
        self.keep = keep

    def prepare(self, after: int, last: int) -> None:
        """Find out whether checkpoints can be written here, before it costs anything.

        Args:
            after: the step from which the run goes on.
            last: its last step; there must be no folder in the place of a checkpoint between.

        Raises:
            CheckpointError: they cannot.
        """
        probe = self.path / f".step-{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as error:
            cause = f"no checkpoint can be written here: {error.strerror}"
            raise CheckpointError(self.path, cause) from error
        for path in self._saved():
            if after < _step(path) <= last and path.is_dir() and not path.is_symlink():
                raise CheckpointError(
                    path, "is a folder in the place of a checkpoint of this run; move it away"
                )

    def save(
        self,
        step: int,
        tensors: Tensors,
        attrs: Mapping[str, Value],
        report: Report | None = None,
    ) -> Path:
        """Write the checkpoint of a step; then remove all but the last ``keep`` up to this step.

        What a killed process has left of an unfinished write is removed first. What is not a
        regular file is never removed.

        Args:
            step: number of optimizer steps done, >= 0.
            tensors: see ``write``.
            attrs: see ``write``.
            report: called with the error of each file that cannot be removed; None makes it a
                warning.

        Returns:
            The file.

        Raises:
            CheckpointError: the file cannot be written; the earlier checkpoints are all there.
            TypeError: see ``write``.
            ValueError: see ``write``; or ``step`` is out of range.
        """
        if not 0 <= step < 10**_DIGITS:
            raise ValueError(f"step = {step}; it must be >= 0 and < 1e{_DIGITS}")
        for unfinished in self.path.glob(f".step-*{TEMPORARY_SUFFIX}"):
            _remove(unfinished, report)
        path = self.path / f"step-{step:0{_DIGITS}}.h5"
        write(path, tensors, attrs)
        # Later steps are left alone: they are broken, or of a run that this one did not start from.
        older = [saved for saved in self._saved() if saved <= path and saved.is_file()]
        for saved in older[: -self.keep]:
            _remove(saved, report)
        return path

    def latest(
        self, report: Report | None = None, check: Check | None = None
    ) -> tuple[Path, dict[str, NDArray[Any]], dict[str, Value]] | None:
        """Read the newest checkpoint that is whole.

        Args:
            report: called with the error of each newer one that is not; None makes it a warning.
            check: called with the step, the arrays and the values of a whole one; what it says is
                wrong with them counts as damage.

        Returns:
            The file, its arrays and its values; None if there is no whole checkpoint.

        Raises:
            CheckpointError: the folder cannot be listed.
        """
        for path in reversed(self._saved()):
            try:
                tensors, attrs = read(path)
                wrong = check(_step(path), tensors, attrs) if check is not None else None
                if wrong is not None:
                    raise CheckpointError(path, f"its content cannot be used: {wrong}")
            except CheckpointError as error:
                _report(error, report)
            else:
                return path, tensors, attrs
        return None

    def _saved(self) -> list[Path]:
        """Return whatever has the name of a checkpoint, in the order of the steps."""
        try:
            names = os.listdir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise CheckpointError(self.path, f"cannot be listed: {error.strerror}") from error
        pattern = re.compile(rf"step-[0-9]{{{_DIGITS}}}\.h5")
        return sorted(self.path / name for name in names if pattern.fullmatch(name))


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _report(error: CheckpointError, report: Report | None) -> None:
    if report is None:
        warnings.warn(str(error), stacklevel=3)
    else:
        report(error)


def _remove(path: Path, report: Report | None) -> None:
    """Remove a file; that it cannot be done is no reason to stop a run."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _report(CheckpointError(path, f"cannot be removed: {error.strerror}"), report)


def _open_regular(path: str, flags: int) -> int:
    """Open a regular file; anything else, such as a pipe, could keep us waiting for ever."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CheckpointError(path, "cannot be read: it is not a regular file")
    return descriptor


def _check(tensors: Tensors, attrs: Mapping[str, Value]) -> None:
    """Refuse what the file could not hold, before anything is written."""
    for name, tensor in tensors.items():
        parts = name.split("/")
        if not all(parts) or "." in parts or "\0" in name:
            raise ValueError(f"tensor name {name!r}; its parts between slashes must be names")
        if any("/".join(parts[:n]) in tensors for n in range(1, len(parts))):
            raise ValueError(f"tensor name {name!r}; a part of it is another tensor's name")
        if not isinstance(tensor, np.ndarray) or tensor.dtype.kind not in _KINDS:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise TypeError(f"tensor {name!r} is {kind}; it must be a NumPy array of numbers")
    for name, value in attrs.items():
        if isinstance(value, bool) or not isinstance(
            value, int | float | str | np.integer | np.floating
        ):
            kind = type(value).__name__
            raise TypeError(f"attribute {name!r} is {kind}; it must be int, float or str")


def _plain(value: Any) -> Any:
    """Turn a NumPy number into Python's, which is the same for JSON."""
    return value.item() if isinstance(value, np.generic) else value


def _header(file: BinaryIO) -> bytes:
    """Return what belongs in front of the content of a file."""
    checksum = hashlib.sha256()
    file.seek(_HEADER_SIZE)
    while block := file.read(_BLOCK):
        checksum.update(block)
    text = f"{_FORMAT}\nsha256 {checksum.hexdigest()}\n"
    return text.encode().ljust(_HEADER_SIZE, b"\0")


def _contents(h5: h5py.File, size: int) -> Contents:
    """Read all of a file whose bytes are as they were written, though perhaps not by ``write``."""
    text = _Reader(size, "S").read(_own(h5, "attributes")).item()
    attrs = json.loads(text)
    if not isinstance(attrs, dict) or not all(type(v) in (int, float, str) for v in attrs.values()):
        raise ValueError("attributes are not int, float or str")
    group = _own(h5, "tensors")
    if not isinstance(group, h5py.Group):
        raise ValueError("tensors is not a group")
    names: list[str] = []
    group.visit(names.append)  # never follows a link into another file
    reader = _Reader(size, _KINDS)
    found = {name: group[name] for name in names}
    tensors = {n: reader.read(f) for n, f in found.items() if not isinstance(f, h5py.Group)}
    return tensors, attrs


def _own(h5: h5py.File, name: str) -> Any:
    """Return an object of this very file, not one behind a link."""
    if not isinstance(h5.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"it has no {name}")
    return h5[name]


class _Reader:
    """Reads data sets whose bytes lie in the file as they will lie in memory.

    Args:
        size: length of the file in bytes; all data sets together cannot have more.
        kinds: the kinds of data type that are allowed.
    """

    def __init__(self, size: int, kinds: str) -> None:
        self._size = size
        self._left = size
        self._kinds = kinds

    def read(self, found: Any) -> NDArray[Any]:
        if not isinstance(found, h5py.Dataset):
            raise ValueError(f"{found.name} is not an array")
        kind = found.dtype
        if kind.kind not in self._kinds:
            raise ValueError(f"{found.name} has the type {kind}, which no checkpoint has")
        properties = found.id.get_create_plist()
        if properties.get_layout() != h5py.h5d.CONTIGUOUS or properties.get_external_count():
            raise ValueError(f"{found.name} is not stored in one piece")
        needed = prod(found.shape) * kind.itemsize
        offset = found.id.get_offset()
        self._left -= needed
        if needed and (offset is None or offset + needed > self._size or self._left < 0):
            raise ValueError(f"{found.name} claims {needed} bytes, which the file does not have")
        values = np.empty(found.shape, kind)
        if needed:
            found.read_direct(values)
        return values
