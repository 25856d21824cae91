"""One way to hand the memory over to a collective, ours and the MPI library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mpi4py import MPI

from collectives.bench.buffers import Array
from collectives.plan import Plan

Call: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Form:
    """A collective in place, or out of place.

    Attributes:
        reset: restore the input and spoil the output; never timed.
        blank: the same with data that stays as it is, however often the collective is done.
        result: this rank's part of the result.
        plan: makes a plan; takes the keywords of `collectives.options.Options`. None: this form is
            the MPI library's alone.
        call: does it in one call; takes the same.
        copy: what has to happen before each run of the plan, and is timed with it.
        library: the MPI library's call; None: it has none for this dtype.
        begin: the MPI library's non-blocking call; None: the same.
        library_result: where the library's result lies, if not where ours does.
    """

    reset: Call
    blank: Call
    result: Array
    plan: Callable[..., Plan] | None = None
    call: Callable[..., object] | None = None
    copy: Call | None = None
    library: Call | None = None
    begin: Callable[[], MPI.Request] | None = None
    library_result: Array | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A collective at one length.

    Attributes:
        forms: functions that make them, by `collectives.bench.settings.IN_PLACE` and
            `OUT_OF_PLACE`; first the one that is meant where nobody says. They allocate what they
            need, and are collective.
        expected: computes what this rank's result must be; collective. None: there is no data, and
            what counts is that nobody leaves before everybody has come.
    """

    forms: dict[str, Callable[[], Form]]
    expected: Callable[[], Array] | None
