"""End the whole job when one rank fails, with that rank's traceback."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, NoReturn

from mpi4py import MPI

PATIENCE = 1.5
"""Seconds that ranks other than 0 wait with a message to the user."""

LINGER = 0.5
"""Seconds between the message and the abort: a launcher that kills a job drops what it has not yet
forwarded of its output."""


class abort_on_exception:
    """End the whole job when an exception escapes on this rank, instead of leaving peers waiting.

    As a statement it holds for the rest of the program, in all threads:

        abort_on_exception(MPI.COMM_WORLD)

    As a context manager it holds for the block, and also for a non-zero ``sys.exit`` in it:

        with abort_on_exception(MPI.COMM_WORLD):
            main()

    The rank and the traceback go to stderr, then ``comm.Abort(1)`` ends the job. Exceptions whose
    class has an attribute ``plain`` that is true are printed as one line, without the traceback:
    they are messages to the user. Python does not tell of exceptions in ``atexit`` handlers and
    ``__del__``; those end nothing.

    Args:
        comm: the communicator whose processes to end.
    """

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm
        # Kept, as the communicator may be freed by the time something goes wrong.
        self._rank, self._size = comm.Get_rank(), comm.Get_size()
        self._before = (sys.excepthook, threading.excepthook)
        self._ours = (self._abort, self._abort_thread)
        sys.excepthook, threading.excepthook = self._ours

    def __enter__(self) -> abort_on_exception:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was installed inside the block, for the rest of the program, stays.
        if sys.excepthook == self._ours[0]:
            sys.excepthook = self._before[0]
        if threading.excepthook == self._ours[1]:
            threading.excepthook = self._before[1]
        if kind is None or error is None:
            return
        if isinstance(error, SystemExit):
            if error.code not in (None, 0):
                text = error.code if isinstance(error.code, str) else f"sys.exit({error.code!r})"
                self._end(text, error.code)
        else:
            self._abort(kind, error, trace)

    def end(self, error: BaseException) -> NoReturn:
        """End the whole job as if ``error`` had escaped, also from a signal handler."""
        self._abort(type(error), error, error.__traceback__)

    def _abort(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> NoReturn:
        try:
            if getattr(kind, "plain", False):
                text = f"error: {error}"
                # Often all ranks have the same to say: let the first one say it.
                time.sleep(min(self._rank, 1) * PATIENCE)
            else:
                text = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        except Exception:  # such as one in the exception's own __str__
            text = f"{kind.__module__}.{kind.__qualname__}, which cannot be printed"
        self._end(text, 1)

    def _abort_thread(self, args: Any) -> None:
        if args.exc_type is not SystemExit:
            self._abort(args.exc_type, args.exc_value, args.exc_traceback)

    def _end(self, text: str, code: object) -> NoReturn:
        """Tell, and end the job, whatever state the streams and the communicator are in."""
        where = f"[rank {self._rank} of {self._size}] "
        said = "".join(f"{where}{line}\n" for line in text.splitlines())
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        try:
            # One write, so that the lines of several failing ranks do not mingle.
            sys.stderr.write(said)
            sys.stderr.flush()
        except Exception:
            with contextlib.suppress(OSError):
                os.write(2, said.encode(errors="replace"))
        time.sleep(LINGER)
        # An exit code has 8 bits, and must not become that of success.
        status = (code & 255 or 1) if isinstance(code, int) else 1
        for comm in (self._comm, MPI.COMM_WORLD):
            with contextlib.suppress(Exception):
                comm.Abort(status)
        os._exit(status)  # Abort may return where another rank's is under way
