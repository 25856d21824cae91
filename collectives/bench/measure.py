"""Time all ways to do a collective, in turns."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.form import Call
from collectives.bench.pin import has_own_cores
from collectives.bench.settings import LEAST, Settings
from collectives.bench.variant import Label, Variant

_Run: TypeAlias = tuple[float, int]  # seconds of a call; involuntary context switches

_WARM_UP = 0.1  # of the budget
_CHECKS = 2  # runs whose results are looked at, before and after, with no barrier in between


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """What the calls of one variant took.

    Attributes:
        label: of the variant.
        seconds: float64 (repetitions,): of a call, on the slowest rank. Without the repetitions
            that were disturbed, if each rank has a core and enough others of every variant are
            left.
        wrong: elements on all ranks that differ from what they must be.
        calls: how many were timed as one; the seconds are of one of them.
        overlap: of a computation and the call beside it: the part of the call's time that they
            had in common, 0 to 1; None: nothing was computed.
        disturbed: the part of the repetitions, 0 to 1, in which a rank lost its core to something
            else for a while.
        calm: the disturbed ones are left out.
    """

    label: Label
    seconds: npt.NDArray[np.float64]
    wrong: int
    calls: int = 1
    overlap: float | None = None
    disturbed: float = 0.0
    calm: bool = False

    @property
    def median(self) -> float:
        """The median in seconds."""
        return float(np.median(self.seconds))


def measure(
    comm: MPI.Comm,
    settings: Settings,
    variants: Sequence[Variant],
    *,
    calls: int = 1,
    part: float = 1.0,
) -> list[Timing]:
    """Time the variants in turns. Collective; all ranks get the same result.

    Args:
        comm: all its ranks take part.
        settings: budget and repetitions.
        variants: what to time.
        calls: how many of them, one right after the other, are timed as one.
        part: of the budget.
    """
    wrong = _wrong(variants)  # also the first runs of all
    budget = part * settings.budget
    with _without_garbage_collection():
        _repeat(comm, variants, calls, _WARM_UP * budget, 1, 20)
        found = _repeat(comm, variants, calls, budget, settings.least, settings.most)
    wrong = np.maximum(wrong, _wrong(variants))
    runs = np.array(found)  # (repetitions, variants, 2)
    comm.Allreduce(MPI.IN_PLACE, runs, MPI.MAX)
    comm.Allreduce(MPI.IN_PLACE, wrong, MPI.SUM)
    seconds, disturbed = runs[:, :, 0], runs[:, :, 1] > 0
    # One rule for all: calm runs of one are not to be compared with disturbed ones of another.
    choosy = has_own_cores(comm) and np.count_nonzero(~disturbed, axis=0).min() >= LEAST
    kept = ~disturbed if choosy else np.ones_like(disturbed)
    return [
        Timing(
            v.label,
            seconds[kept[:, i], i],
            int(wrong[i]),
            calls,
            disturbed=float(disturbed[:, i].mean()),
            calm=bool(choosy),
        )
        for i, v in enumerate(variants)
    ]


def _wrong(variants: Sequence[Variant]) -> npt.NDArray[np.int64]:
    """Count the wrong elements of this rank, of each variant.

    Ranks go from one run to the next as they get there: what a run still has to read must not be
    spoilt by the next.
    """
    return np.array([max(v.wrong() for _ in range(_CHECKS)) for v in variants], np.int64)


def _repeat(
    comm: MPI.Comm, variants: Sequence[Variant], calls: int, budget: float, least: int, most: int
) -> list[list[_Run]]:
    """Repeat until the budget of seconds is spent at rank 0; return what each run took."""
    end = time.perf_counter() + budget
    more = np.ones(1, np.int8)
    runs: list[list[_Run]] = []
    while True:
        k = len(runs)
        more[0] = k < least or (k < most and time.perf_counter() < end)
        comm.Bcast(more)
        if not more[0]:
            return runs
        runs.append(_repetition(comm, variants, calls, k))


def _repetition(comm: MPI.Comm, variants: Sequence[Variant], calls: int, k: int) -> list[_Run]:
    """Give each variant its turn, in an order of its own each time.

    What ran before leaves its data in the caches: none may always follow the same one. The order is
    drawn from the number of the repetition, so it is the same on all ranks.
    """
    runs = [(0.0, 0)] * len(variants)
    for i in np.random.default_rng(k).permutation(len(variants)):
        v = variants[i]
        if calls > 1:
            v.blank()
        else:
            v.reset()
        before = _switches()
        comm.Barrier()
        seconds = _timed(v.call, calls)
        runs[i] = (seconds, _switches() - before)
    return runs


def _timed(call: Call, calls: int) -> float:
    begin = time.perf_counter()
    for _ in repeat(None, calls):
        call()
    return (time.perf_counter() - begin) / calls


def _switches() -> int:
    """Return how often this process had to give its core away, though it had something to do."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
