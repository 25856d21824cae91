"""Standard output that says what is wrong when it cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from hpcdl.errors import UserError


class OutputError(UserError):
    """Standard output cannot be written, as on a full disk."""


class OutputClosed(OutputError):
    """Who was reading standard output, as ``head`` does, has seen enough."""


class Output:
    """A text stream whose failures are `OutputError`; all else is passed on.

    Args:
        stream: standard output.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text.

        Raises:
            OutputError: it cannot be written.
        """
        with self._told():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is kept back.

        Raises:
            OutputError: it cannot be written.
        """
        with self._told():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            self._discard()
            raise OutputClosed("standard output: nobody reads it any more") from error
        except (OSError, UnicodeError) as error:
            self._discard()
            reason = error.strerror if isinstance(error, OSError) else error
            raise OutputError(f"standard output cannot be written: {reason}") from error

    def _discard(self) -> None:
        """Drop what is kept back, or the interpreter fails at it again when it ends."""
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        except (OSError, ValueError):  # a stream without a descriptor keeps nothing back
            return
