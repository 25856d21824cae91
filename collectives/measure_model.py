"""Measure messages, bursts and sums, to fit a model to them.

What is timed are schedules on the executor that is to be modelled: round trips of one message, with
and without a sum, and bursts of short ones. So the parameters are those of the rounds that it runs.
All pairs of ranks work at once, each rank with one that is half of all ranks away, which is on
another node where there are several; the slowest pair counts. All lengths and kinds take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI

from collectives.bind import bind
from collectives.blocks import Split
from collectives.fit import Fit, Samples, fit
from collectives.plan import Plan
from collectives.step import Recv, Reduce, Round, Send

SIZES = tuple(8 << k for k in range(20))
"""The lengths of messages in bytes: 8 B to 4 MiB."""

SHORT = (8, 16, 32, 64)
"""The lengths of the messages of bursts."""

_BURST = 16  # messages
_MOST = 200  # repetitions
_SHORTEST = 1e-9  # seconds; what is less than the clock can tell


@dataclass(frozen=True, slots=True)
class _Trial:
    """Something that is timed.

    Attributes:
        executor: what runs it.
        kind: "messages", "sums", "bursts" or "sends".
        nbytes: of a message.
        plan: what is run.
    """

    executor: str
    kind: str
    nbytes: int
    plan: Plan


def measure_models(
    comm: MPI.Comm,
    executors: Sequence[str],
    *,
    sizes: Sequence[int] = SIZES,
    budget: float = 5.0,
    least: int = 5,
) -> dict[str, Fit]:
    """Measure and fit the model of each executor. Collective; all ranks get the same.

    Args:
        comm: at least 2 ranks.
        executors: "python", "native" or both.
        sizes: lengths of messages in bytes, multiples of 4, at least 3.
        budget: seconds for all.
        least: repetitions, however long they take.

    Raises:
        ValueError: there is only one rank, or an executor that cannot be had.
    """
    if comm.Get_size() < 2:
        raise ValueError("comm: has 1 rank; a message needs 2")
    trials = [t for executor in executors for t in _trials(comm, executor, sizes)]
    try:
        medians = _medians(comm, trials, budget, least)
    finally:
        for trial in trials:
            trial.plan.close()
    return {
        e: fit(_samples({(t.kind, t.nbytes): s for t, s in medians.items() if t.executor == e}))
        for e in executors
    }


def _trials(comm: MPI.Comm, executor: str, sizes: Sequence[int]) -> Iterator[_Trial]:
    half = comm.Get_size() // 2
    rank = comm.Get_rank()
    first = rank < half
    partner = rank + half if first else rank - half
    there = rank < 2 * half  # of an odd number of ranks, the last one has no partner

    def trial(kind: str, nbytes: int, rounds: Sequence[Round]) -> _Trial:
        # Zeros: their sums stay finite, however often they are added.
        blocks = Split(np.zeros(nbytes // 4, np.float32), 1)
        plan = bind(rounds if there else [], blocks, comm, executor=executor)
        return _Trial(executor, kind, nbytes, plan)

    send: Round = [Send(partner, 0)]
    recv: Round = [Recv(partner, 0)]
    for nbytes in sizes:
        for kind, take in (("messages", Recv(partner, 0)), ("sums", Reduce(partner, 0))):
            trip: list[Round] = [send, [take]] if first else [[take], send]
            yield trial(kind, nbytes, trip * _trips(nbytes))
    for nbytes in SHORT:
        burst = [send if first else recv] * _BURST
        back = [recv if first else send]
        yield trial("bursts", nbytes, burst + back)
        yield trial("sends", nbytes, burst)


def _medians(
    comm: MPI.Comm, trials: Sequence[_Trial], budget: float, least: int
) -> dict[_Trial, float]:
    """Return the seconds of a run of each trial: the median of the slowest pair's first rank."""
    end = time.perf_counter() + budget
    more = np.ones(1, np.int8)
    runs: list[list[float]] = []
    for trial in trials:  # warms up
        trial.plan.run()
    while True:
        more[0] = len(runs) < least or (len(runs) < _MOST and time.perf_counter() < end)
        comm.Bcast(more)
        if not more[0]:
            break
        runs.append([_timed(comm, trial.plan.run) for trial in trials])
    medians = np.median(np.array(runs), axis=0)
    if comm.Get_rank() >= comm.Get_size() // 2:
        medians[:] = 0.0  # those that answer
    comm.Allreduce(MPI.IN_PLACE, medians, MPI.MAX)
    return dict(zip(trials, medians.tolist(), strict=True))


def _timed(comm: MPI.Comm, run: Callable[[], None]) -> float:
    comm.Barrier()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _trips(nbytes: int) -> int:
    """Return how many round trips are timed as one."""
    return 8 if nbytes <= 1 << 16 else 2


def _samples(seconds: dict[tuple[str, int], float]) -> Samples:
    """Return the time of one message, from the times of the runs of each kind and length."""

    def half_trips(wanted: str) -> dict[int, float]:
        return {n: s / (2 * _trips(n)) for (kind, n), s in seconds.items() if kind == wanted}

    messages = half_trips("messages")
    sends = [(n, s / _BURST) for (kind, n), s in seconds.items() if kind == "sends"]
    # After all gaps of a burst its last message and the answer are on their way.
    way = min(messages.values())
    bursts = [
        (n, max(_SHORTEST, (s - 2 * messages.get(n, way)) / (_BURST - 1)))
        for (kind, n), s in seconds.items()
        if kind == "bursts"
    ]
    return Samples(list(messages.items()), list(half_trips("sums").items()), sends, bursts)
