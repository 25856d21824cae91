"""Files that are either whole or not there.

A file is written beside its place, forced to the disk and renamed, so that a reader sees the old
one or the new one, never half of one, whatever happens in between: a full disk, a killed job, a
power cut.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import h5py

__all__ = ["TEMPORARY_SUFFIX", "hdf5_writer", "replacing"]

TEMPORARY_SUFFIX = ".tmp"

_METADATA_LIMIT = 65536  # bytes; HDF5 may read back what it wrote in pieces smaller than this


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is whole and on the disk.

    Args:
        path: the file to create or to replace. Its folder is made if it is not there.

    Yields:
        A binary file, open for reading and writing, under a temporary name in the same folder: a
        dot, the name, and ``TEMPORARY_SUFFIX``.

    Raises:
        OSError: the disk is full, or the folder cannot be written. As after any other exception in
            the block, what stood under ``path`` is untouched and the temporary file is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        with open(temporary, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Force the new name itself to the disk, where the file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


@contextmanager
def hdf5_writer(file: BinaryIO, userblock_size: int = 0) -> Iterator[h5py.File]:
    """Create an HDF5 file inside an open file.

    HDF5 is never told that a write has failed: when its cached metadata cannot be written, the
    library corrupts its memory and the process dies. The failure is kept and raised when HDF5 has
    closed the file.

    Args:
        file: an empty binary file, open for reading and writing.
        userblock_size: bytes left free before the HDF5 content: 0, or a power of two >= 512.

    Yields:
        The HDF5 file, open for writing.

    Raises:
        OSError: a write failed, as on a full disk.
    """
    sink = _Sink(file.fileno())
    try:
        with h5py.File(sink, "w", driver="fileobj", userblock_size=userblock_size) as h5:
            yield h5
    finally:
        if sink.error is not None:
            raise sink.error


class _Sink:
    """The file object that HDF5 writes to. After a failure it goes on as if nothing had happened.

    Attributes:
        error: the first failure, or None.
    """

    def __init__(self, descriptor: int) -> None:
        self.error: BaseException | None = None
        self._descriptor = descriptor
        self._position = 0
        self._end = 0
        self._unwritten: list[tuple[int, bytes]] = []

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: memoryview) -> int:
        start, size = self._position, len(data)
        try:
            written = 0 if self.error is None else size
            while written < size:
                written += os.pwrite(self._descriptor, data[written:], start + written)
        except BaseException as error:  # Ctrl-C too must not unwind through HDF5
            self.error = error
        if self.error is not None and size < _METADATA_LIMIT:
            self._unwritten.append((start, bytes(data)))
        self._position += size
        self._end = max(self._end, self._position)
        return size

    def read(self, size: int) -> bytes:
        start = self._position
        found = bytearray(os.pread(self._descriptor, size, start).ljust(size, b"\0"))
        for offset, data in self._unwritten:
            low, high = max(offset, start), min(offset + len(data), start + size)
            if low < high:
                found[low - start : high - start] = data[low - offset : high - offset]
        self._position += size
        return bytes(found)

    def truncate(self, size: int) -> int:
        with suppress(OSError):  # the bytes that follow fail too, and say why
            os.ftruncate(self._descriptor, size)
        self._end = size
        return size

    def flush(self) -> None:
        """Nothing is buffered here; ``replacing`` forces the file to the disk."""
