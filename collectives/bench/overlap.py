"""How much of a collective's time can be spent on a computation: the overlap, in per cent.

As the OSU and Intel benchmarks of non-blocking collectives have it: ``pure`` is the time of the
collective alone, begun and waited for at once; a computation is made as long as that; ``both`` is
the time of beginning the collective, computing, and waiting. The overlap is
``1 - (both - computation) / pure``: 1 where the collective costs nothing more than the computation,
0 where the two take as long as one after the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.form import Call
from collectives.bench.measure import Timing, measure
from collectives.bench.settings import Settings
from collectives.bench.variant import Overlapped, Variant

_WIDTHS = (8, 16, 32, 64, 128, 256)
_PIECES = 10  # at least, that the computation is made of
_ROUGH = 0.2  # of the budget


class Computation:
    """Products of small matrices by numpy, one after the other, for about as long as is asked for.

    Args:
        seconds: how long; the same on all ranks.
        comm: the ranks; the same number of products is made on all.
    """

    def __init__(self, seconds: float, comm: MPI.Comm) -> None:
        # A piece is short, so that a plan can be tested often; but not so short that what is timed
        # is Python's loop.
        for width in _WIDTHS:
            matrix = np.full((width, width), 1 / width, np.float32)
            taken = comm.allreduce(_piece_seconds(matrix), MPI.MAX)
            if width > _WIDTHS[0] and taken * _PIECES > seconds:
                break
            self._matrix, piece = matrix, taken
        self._pieces = max(1, round(seconds / piece))
        self._result = np.empty_like(self._matrix)

    def run(self, test: Callable[[], bool] | None = None) -> bool:
        """Compute; call ``test`` after each piece until it is true; return whether it was."""
        matrix, result = self._matrix, self._result
        done = False
        for _ in range(self._pieces):
            np.matmul(matrix, matrix, out=result)
            if test is not None and not done:
                done = test()
        return done


def measure_overlap(comm: MPI.Comm, settings: Settings, ways: Sequence[Overlapped]) -> list[Timing]:
    """Time each way alone and beside a computation as long, all in turns. Collective.

    Returns:
        for each way the timing of the collective alone, with its overlap.
    """
    if not ways:
        return []
    alone = [_variant(way, partial(_pure, way)) for way in ways]
    rough = measure(comm, settings, alone, part=_ROUGH)
    turns: list[Variant] = []
    for way, pure, timing in zip(ways, alone, rough, strict=True):
        computation = Computation(timing.median, comm)
        computing = replace(pure, call=computation.run, wrong=lambda: 0)
        turns += [pure, computing, _variant(way, partial(_both, way, computation))]
    timings = measure(comm, settings, turns)
    return [_combine(timings[i : i + 3]) for i in range(0, len(turns), 3)]


def _combine(timings: Sequence[Timing]) -> Timing:
    pure, computing, both = (t.median for t in timings)
    overlap = min(1.0, max(0.0, 1 - (both - computing) / pure))
    return replace(timings[0], wrong=max(t.wrong for t in timings), overlap=overlap)


def _variant(way: Overlapped, call: Call) -> Variant:
    return Variant(way.label, way.reset, way.reset, call, partial(way.wrong, call))


def _pure(way: Overlapped) -> None:
    way.pending.start()
    way.pending.wait()


def _both(way: Overlapped, computation: Computation) -> None:
    way.pending.start()
    if not computation.run(way.pending.test if way.tested else None):
        way.pending.wait()


def _piece_seconds(matrix: npt.NDArray[np.float32]) -> float:
    """Return the least time of some products of the matrix with itself."""
    result = np.empty_like(matrix)
    least = math.inf
    for _ in range(20):
        begin = time.perf_counter()
        np.matmul(matrix, matrix, out=result)
        least = min(least, time.perf_counter() - begin)
    return least
