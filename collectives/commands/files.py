"""What the subcommands do with files before they begin."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from collectives.commands.arguments import UsageError
from collectives.machine import machine
from collectives.table import Table


def check_writable(option: str, path: Path) -> None:
    """Find out before the work, not after it, that a result cannot be written.

    Raises:
        UsageError: it cannot.
    """
    try:
        if path.is_fifo():
            return  # who opens it waits for a reader, who would take its end for that of the result
        there = path.exists()
        path.open("ab").close()
        if not there:
            _remove(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error


@contextlib.contextmanager
def written(option: str, path: Path) -> Iterator[BinaryIO]:
    """Open a file to write a result to; where that fails, no part of the result stays.

    Raises:
        UsageError: it cannot be written.
    """
    opened = False
    try:
        with path.open("wb") as file:
            opened = True
            yield file
    except BaseException as error:
        if opened and path.is_file():
            _remove(path)
        if isinstance(error, OSError):
            raise UsageError(f"{option} {path}: {error.strerror}") from error
        raise


def _remove(path: Path) -> None:
    """Remove a file, and not a link to it; another rank may have been quicker."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)


def another_machine(table: Table | None) -> str:
    """Return what to say of a table that was measured on another machine; "" where it was not."""
    return "" if table is None else _elsewhere("on", table.machine, machine())


def another_mpi(table: Table | None, mpi: str) -> str:
    """Return what to say of a table that was measured with another MPI; "" where it was not."""
    return "" if table is None else _elsewhere("with", table.mpi, mpi)


def _elsewhere(word: str, there: str, here: str) -> str:
    if there == here:
        return ""
    return f"the table was measured {word} {there}, and this is {here}: its times may not hold here"


def is_open(stream: TextIO | None) -> bool:
    """Return whether a stream of Python can be written to: a program may close standard output."""
    return stream is not None and not getattr(stream, "closed", False)


def write_no_more() -> None:
    """Drop what cannot be written to standard output, of which Python would complain at the end."""
    for stream in (sys.stdout, sys.__stdout__):  # a program may have put something in its place
        if stream is not None and is_open(stream):
            with contextlib.suppress(OSError):  # it has no file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
