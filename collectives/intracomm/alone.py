"""Messages of a process to itself: they convert data, and they complete handles of MPI."""

from __future__ import annotations

import itertools
import threading
from typing import Any, cast

from mpi4py import MPI

TAGS = 1 << 15
"""Every MPI has so many."""

NOTHING = [None, 0, MPI.BYTE]


class Alone:
    """A communicator of this process only, that nobody else uses. It is made at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._comm: MPI.Intracomm | None = None
        self._count = itertools.count()

    @property
    def comm(self) -> MPI.Intracomm:
        """The communicator."""
        with self._lock:
            if self._comm is None:
                self._comm = MPI.COMM_SELF.Dup()
        return self._comm

    def tag(self) -> int:
        """Return a tag that no message under way has."""
        return next(self._count) % TAGS

    def copy(self, source: list[Any], target: list[Any]) -> None:
        """Copy from one buffer to another, as messages are: each with a datatype of its own."""
        tag = self.tag()
        self.comm.Sendrecv(source, 0, tag, target, 0, tag)

    def open_handle(self, tag: int) -> MPI.Request:
        """Return a request that is complete when `complete` is called."""
        return self.comm.Issend(NOTHING, 0, tag)

    def persistent_handle(self, tag: int) -> MPI.Prequest:
        """Return a request that, each time it is started, is complete when `complete` is called."""
        return cast("MPI.Prequest", self.comm.Ssend_init(NOTHING, 0, tag))

    def is_open(self, tag: int) -> bool:
        """Return whether a request is started and not complete. Any thread may ask."""
        return self.comm.Iprobe(0, tag)

    def complete(self, tag: int) -> None:
        """Complete a request that is started."""
        self.comm.Recv(NOTHING, 0, tag)
