"""Time all ways to do a collective, in turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.settings import Settings
from collectives.bench.variant import Variant


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """What the calls of one variant took.

    Attributes:
        name: of the variant.
        seconds: float64 (repetitions,): of each call, on the slowest rank.
        wrong: elements on all ranks that differ from the library's result.
    """

    name: str
    seconds: npt.NDArray[np.float64]
    wrong: int

    @property
    def median(self) -> float:
        """The median in seconds."""
        return float(np.median(self.seconds))


def measure(comm: MPI.Comm, settings: Settings, variants: Sequence[Variant]) -> list[Timing]:
    """Time the variants in turns. Collective; all ranks get the same result.

    The last of the variants that are the library's own is the reference for the results.
    """
    reference = variants[1] if variants[1].plan is None else variants[0]
    reference.reset()
    reference.call()
    expected = reference.result.copy()
    wrong = np.zeros(len(variants), np.int64)
    for i, v in enumerate(variants):  # the first run: also warms up
        v.reset()
        v.call()
        wrong[i] = np.count_nonzero(v.result != expected)
    with _without_garbage_collection():
        _repeat(comm, variants, 0.1 * settings.budget, 1, 20)
        seconds = np.array(_repeat(comm, variants, settings.budget, settings.least, settings.most))
    for i, v in enumerate(variants):  # what many runs of the same plan lead to
        v.reset()
        v.call()
        wrong[i] = max(wrong[i], np.count_nonzero(v.result != expected))
    comm.Allreduce(MPI.IN_PLACE, seconds, MPI.MAX)
    comm.Allreduce(MPI.IN_PLACE, wrong, MPI.SUM)
    return [Timing(v.name, seconds[:, i], int(wrong[i])) for i, v in enumerate(variants)]


def _repeat(
    comm: MPI.Comm, variants: Sequence[Variant], budget: float, least: int, most: int
) -> list[list[float]]:
    """Repeat until the budget of seconds is spent at rank 0; return the seconds of each call."""
    end = time.perf_counter() + budget
    more = np.ones(1, np.int8)
    seconds: list[list[float]] = []
    while True:
        k = len(seconds)
        more[0] = k < least or (k < most and time.perf_counter() < end)
        comm.Bcast(more)
        if not more[0]:
            return seconds
        seconds.append(_repetition(comm, variants, k))


def _repetition(comm: MPI.Comm, variants: Sequence[Variant], k: int) -> list[float]:
    """Run each variant once; the turn begins with another one each time."""
    seconds = [0.0] * len(variants)
    for j in range(len(variants)):
        i = (j + k) % len(variants)
        variants[i].reset()
        call = variants[i].call
        comm.Barrier()
        begin = time.perf_counter()
        call()
        seconds[i] = time.perf_counter() - begin
    return seconds


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
