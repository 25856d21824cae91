"""What an algorithm costs on many ranks, cheaply: what `collectives.select` compares.

The price is what the ranks pay if all walk through the rounds in step: the sum over the rounds of
what the slowest rank pays in each. It needs no matching. A schedule is walked once and summed up,
whatever the bytes and the model: how often there is a round in which a rank sends so many messages
with that share of the data. So a price is a few multiplications, and a schedule is walked only as
far as somebody asks.

Only some of the ranks are looked at. Where these all sit out a round, it counts like the dearer one
of the last before it and the first after it in which one does not. The price is that of the
simulation where all ranks do alike, and above it where ranks that are ahead can go on. In two trees
it may be a third below it: those that do most in a round are not always among the ranks looked at.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from collectives.collective import BARRIER
from collectives.extent import Extent
from collectives.model import Model
from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero, scalar

SOME = 1024
"""Up to so many ranks, four are looked at; beyond that, rank 0."""

_CHUNK = 64  # rounds that are walked at a time


class Work(NamedTuple):
    """What one rank does in one round; lengths are shares of the buffer of a rank."""

    sent: int
    out: float
    taken: int
    into: float
    reduced: float

    def seconds(self, nbytes: float, model: Model) -> float:
        """Return what it takes until the last message is in place, if the peers do alike.

        The first message is there after ``o + b G + L``; then the processor takes one after the
        other, as fast as it can or as fast as they come.
        """
        o, sums = model.overhead, self.reduced * nbytes * model.reduce_time
        there = busy = 0.0
        if self.sent:
            on_link = o + self.out / self.sent * nbytes * model.byte_time
            there = (self.sent - 1) * max(on_link, model.gap) + on_link + model.latency + o
            busy = self.sent * o
        if not self.taken:
            return max(there, busy + sums)
        on_link = self.into / self.taken * nbytes * model.byte_time
        apart = max(on_link + o if self.sent >= self.taken else on_link, model.gap)
        each = o + sums / self.taken
        first = o + on_link + model.latency
        last = first + (self.taken - 1) * apart
        return max(there, last + each, max(first, busy) + self.taken * each)


_IDLE = Work(0, 0.0, 0, 0.0, 0.0)


class Profile:
    """The rounds of an algorithm, summed up; they are walked as far as they are needed.

    Args:
        algorithm: of the registry, or made by hand.
        size: number of ranks.

    Attributes:
        complete: whether all rounds have been walked.
    """

    def __init__(self, algorithm: Algorithm, size: int) -> None:
        self._extent = Extent(algorithm, size, 1)
        # The lengths of a barrier are bytes, all others are shares.
        self._barrier = algorithm.collective.name == BARRIER.name
        self._ranks = sorted({0, 1 % size, size // 2, size - 1}) if size <= SOME else [0]
        self._rounds: Iterator[tuple[Round, ...]] = zip(
            *(algorithm.generate(rank, size) for rank in self._ranks), strict=True
        )
        self._counts: dict[frozenset[Work], int] = {}
        self._last: frozenset[Work] = frozenset()  # of the last round with one of the ranks
        self._idle = 0  # rounds since then
        self._lock = threading.Lock()
        self.complete = False

    def seconds(self, nbytes: int, model: Model) -> float:
        """Return the price of the rounds walked so far.

        Args:
            nbytes: length of the buffer of a rank, as `collectives.extent.Extent` says.
            model: the costs.
        """
        n = 1 if self._barrier else nbytes
        if n == 0:
            return 0.0  # nothing is sent
        with self._lock:
            return sum(
                count * max(work.seconds(n, model) for work in works)
                for works, count in self._counts.items()
            )

    def walk(self, rounds: int = _CHUNK) -> None:
        """Walk on through some rounds, as far as there are any."""
        with self._lock:
            steps = list(islice(self._rounds, rounds))
            for each in steps:
                works = frozenset(map(self._work, self._ranks, each)) - {_IDLE}
                if works:
                    self._count(self._last | works, self._idle)
                    self._count(works, 1)
                    self._last, self._idle = works, 0
                else:
                    self._idle += 1
            self.complete = len(steps) < rounds
            if self.complete:
                self._count(self._last, self._idle)
                self._idle = 0

    def _count(self, works: frozenset[Work], rounds: int) -> None:
        if works and rounds:
            self._counts[works] = self._counts.get(works, 0) + rounds

    def _work(self, rank: int, steps: Round) -> Work:
        out: dict[int, float] = {}
        into: dict[int, float] = {}
        reduced = 0.0
        for s in map(scalar, steps):
            if s is None or isinstance(s, Zero):
                continue
            share = float(self._extent.of(s.block, s.count))
            if isinstance(s, Reduce):
                reduced += share
            peer = int(s.peer)
            if peer != rank:
                side = out if isinstance(s, Send) else into
                side[peer] = side.get(peer, 0.0) + share
        return Work(len(out), sum(out.values()), len(into), sum(into.values()), reduced)


def cheapest(options: Sequence[tuple[Profile, Model]], nbytes: int) -> tuple[int, float]:
    """Return the number of the cheapest option, and its price in seconds; of equal ones the first.

    The option that has cost least so far is walked on, until one is at its end: so those that
    would take very many rounds are not walked through.

    Args:
        options: at least one.
        nbytes: length of the buffer of a rank, as `collectives.extent.Extent` says.
    """
    spent = [(profile.seconds(nbytes, model), i) for i, (profile, model) in enumerate(options)]
    heapq.heapify(spent)
    while True:
        seconds, i = spent[0]
        profile, model = options[i]
        if profile.complete and seconds == profile.seconds(nbytes, model):
            return i, seconds
        if not profile.complete:
            profile.walk()  # other options may have the same one
        heapq.heapreplace(spent, (profile.seconds(nbytes, model), i))


def price(algorithm: Algorithm, size: int, nbytes: int, model: Model) -> float:
    """Return the price of an algorithm in seconds; the arguments are those of `simulate`."""
    profile = Profile(algorithm, size)
    return cheapest([(profile, model)], nbytes)[1]
