"""What takes a turn: one way to do the collective, with a name for its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from mpi4py import MPI

from collectives.bench.form import Call

LIBRARY = "library"
"""The executor of the MPI library's own calls."""

GLOO = "gloo"
"""The executor of Gloo's."""

MEMORY = "memory"
"""The executor of the floor (see `collectives.bench.floor`)."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a timing is of.

    Attributes:
        algorithm: as it was asked for, such as ``ring``, ``chain:segments=8`` or ``auto``; of what
            is not ours a name for the table.
        executor: of `collectives.bench.settings.EXECUTORS`; `LIBRARY`, `GLOO` or `MEMORY`.
        placement: of `collectives.bench.settings.PLACEMENTS`.
        mode: of `collectives.bench.settings.MODES`.
        chosen: what "auto" took.
    """

    algorithm: str
    executor: str
    placement: str
    mode: str
    chosen: str = ""

    @property
    def name(self) -> str:
        """The algorithm for the table, with what "auto" stands for."""
        if self.chosen in ("", self.algorithm):
            return self.algorithm
        return f"{self.algorithm} ({self.chosen})"

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.executor} {self.name}, {self.placement}, {self.mode}"


@dataclass(frozen=True, slots=True)
class Variant:
    """A call that is timed.

    Attributes:
        label: what it is.
        reset: restore the input and spoil the output; not timed.
        blank: the same before a batch of calls; not timed.
        call: do it; timed.
        wrong: do it, and count the elements of this rank's result that are wrong.
    """

    label: Label
    reset: Call
    blank: Call
    call: Call
    wrong: Callable[[], int]


class Pending(Protocol):
    """What is begun and waited for: a `collectives.plan.Plan`, or a `LibraryCall`."""

    def start(self) -> None:
        """Begin."""

    def test(self) -> bool:
        """Make progress; return whether it is finished. Not called again once it is."""

    def wait(self) -> None:
        """Block until it is finished. Not called where `test` has said that it is."""


class LibraryCall:
    """A non-blocking call of the MPI library, as a `Pending`."""

    def __init__(self, begin: Callable[[], MPI.Request]) -> None:
        self._begin = begin
        self._request = MPI.REQUEST_NULL

    def start(self) -> None:
        """Begin."""
        self._request = self._begin()

    def test(self) -> bool:
        """Make progress; return whether it is finished."""
        return bool(self._request.Test())

    def wait(self) -> None:
        """Block until it is finished."""
        self._request.Wait()


@dataclass(frozen=True, slots=True)
class Overlapped:
    """A call that is begun, and waited for once something else has been computed.

    Attributes:
        label: what it is.
        reset: restore the input and spoil the output; not timed.
        pending: what is begun and waited for.
        tested: whether it is tested between pieces of the computation.
        wrong: given a function that begins it and waits for it: call that, and count the elements
            of this rank's result that are wrong.
    """

    label: Label
    reset: Call
    pending: Pending
    tested: bool
    wrong: Callable[[Call], int]


@dataclass(slots=True)
class Ways:
    """All that takes a turn at one length.

    Attributes:
        nbytes: the length, rounded as the collective needs it.
        variants: what is timed; the library's own calls first.
        overlapped: what is timed with a computation beside it; again the library's first.
        closing: what is called when all is done.
    """

    nbytes: int
    variants: list[Variant] = field(default_factory=list)
    overlapped: list[Overlapped] = field(default_factory=list)
    closing: list[Call] = field(default_factory=list)

    def close(self) -> None:
        """Close the plans."""
        for close in self.closing:
            close()
