"""Requests of the library whose waits are counted, as those of our own requests are."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI

if TYPE_CHECKING:
    _Request = MPI.Request
else:
    # An object must be made by the `__new__` of the very class of MPI that it extends.
    _Request = object

Waited = Callable[[float], None]
"""Takes the seconds that a wait for a call has lasted."""


class _Counted(_Request):
    """What both kinds of requests do."""

    _waited: Waited | None = None

    def __new__(cls, made: MPI.Request, *args: Any) -> Any:
        """Take the request over, with its buffers."""
        return super().__new__(cls, made)

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:
        """Wait until the collective is finished."""
        begin = perf_counter()
        super().Wait(status)
        self._count(begin)
        return True

    def Test(self, status: MPI.Status | None = None) -> bool:
        """Return whether the collective is finished."""
        begin = perf_counter()
        done = super().Test(status)
        self._count(begin)
        return done

    def wait(self, status: MPI.Status | None = None) -> Any:
        """Wait until the collective is finished."""
        self.Wait(status)

    def test(self, status: MPI.Status | None = None) -> tuple[bool, Any | None]:
        """Return whether the collective is finished, and None."""
        return self.Test(status), None

    def _count(self, begin: float) -> None:
        if self._waited is not None:
            self._waited(perf_counter() - begin)


class CountedRequest(_Counted, MPI.Request):
    """A non-blocking collective of the library.

    Args:
        made: what the library has returned.
        waited: called with the seconds of each wait and test.
    """

    def __init__(self, made: MPI.Request, waited: Waited) -> None:
        self._waited = waited


class CountedPersistent(_Counted, MPI.Prequest):
    """A persistent collective of the library.

    Args:
        made: what the library has returned.
        count: called with the seconds of each start; returns what takes those of waits for it.
    """

    def __init__(self, made: MPI.Prequest, count: Callable[[float], Waited]) -> None:
        self._started = count

    def Start(self) -> None:
        """Begin. Does not block."""
        begin = perf_counter()
        super().Start()
        self._waited = self._started(perf_counter() - begin)
