"""The folder of a run: what stands in the way of it, what was there before, who is using it."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpcdl.errors import UserError

LOCK = ".lock"

# As a file system answers that has no locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def using(path: str | os.PathLike[str], done: str = "written") -> Iterator[None]:
    """Name a file in the message when it cannot be used in the block.

    Args:
        path: the file.
        done: what cannot be done to it, as "read".

    Raises:
        UserError: in place of an OSError or UnicodeError.
    """
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        name = os.fsencode(path).decode(errors="backslashreplace")
        raise UserError(f"{name}: cannot be {done}: {reason or error}") from error


@contextmanager
def reserved(directory: Path) -> Iterator[None]:
    """Make a folder, and keep other runs out of it for the time of the block.

    The lock is the system's, on a file in the folder, and ends with the process whatever ends that.
    On a file system without locks there is none.

    Raises:
        UserError: another run has the folder, or it cannot be made.
    """
    path = directory / LOCK
    with using(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with using(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with using(path):
            if _locked(descriptor):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"pid {os.getpid()} on {socket.gethostname()}".encode(), 0)
            else:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
                raise UserError(
                    f"{directory}: another run is using this folder ({holder or 'unknown'}); wait "
                    "for it, or choose another run.dir"
                )
        yield
        with using(path):
            os.ftruncate(descriptor, 0)  # nobody has it any more
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def set_aside(directory: Path, names: Sequence[str]) -> Path | None:
    """Move what an earlier run left in a folder to a folder inside it, so that nothing is lost.

    Args:
        directory: the folder of the run; it need not exist.
        names: the files and folders that a run makes.

    Returns:
        Where they are now, or None where there were none.

    Raises:
        UserError: they cannot be moved.
    """
    found = [directory / name for name in names if os.path.lexists(directory / name)]
    if not found:
        return None
    number = 1
    while os.path.lexists(target := directory / f"earlier-{number}"):
        number += 1
    with using(target):
        target.mkdir()
        for path in found:
            os.replace(path, target / path.name)
    return target
