"""End the whole job when one rank fails, with that rank's traceback."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any

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
    they are messages to the user.

    Args:
        comm: the communicator whose processes to end.
    """

    def __init__(self, comm: MPI.Comm) -> None:
        self._comm = comm
        self._hooks = (sys.excepthook, threading.excepthook)
        sys.excepthook = self._abort
        threading.excepthook = self._abort_thread

    def __enter__(self) -> abort_on_exception:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.excepthook, threading.excepthook = self._hooks
        if kind is None or error is None:
            return
        if isinstance(error, SystemExit):
            if error.code in (None, 0):
                return
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
            self._end(f"sys.exit({error.code!r})", error.code if type(error.code) is int else 1)
        self._abort(kind, error, trace)

    def _abort(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if getattr(kind, "plain", False):
            text = f"error: {error}"
            # Often all ranks have the same to say: let the first one say it.
            time.sleep(min(self._comm.Get_rank(), 1) * PATIENCE)
        else:
            text = "".join(traceback.format_exception(kind, error, trace)).rstrip()
        self._end(text, 1)

    def _abort_thread(self, args: Any) -> None:
        if args.exc_type is not SystemExit:
            self._abort(args.exc_type, args.exc_value, args.exc_traceback)

    def _end(self, text: str, code: int) -> None:
        comm = self._comm
        where = f"[rank {comm.Get_rank()} of {comm.Get_size()}] "
        sys.stdout.flush()
        # One write, so that the lines of several failing ranks do not mingle.
        sys.stderr.write("".join(f"{where}{line}\n" for line in text.splitlines()))
        sys.stderr.flush()
        time.sleep(LINGER)
        comm.Abort(code or 1)
        os._exit(code or 1)  # Abort may return where another rank's is under way
