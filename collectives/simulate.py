"""Predict the time of a schedule on any number of ranks, without running it.

The generator of the algorithm is called once, with ``rank = arange(size)``, so that a round of
10,000 ranks costs a few vector operations. Rounds are matched, so time is a recurrence in maxima
and sums (a max-plus system). A rank that enters a round at time t

- sends its messages one after the other: each occupies the processor for o and the outgoing link
  for ``o + b G``, at least g, and is at the receiver L later;
- takes the messages of the round in the order of its list: each occupies the incoming link for
  ``b G``, at least g, then the processor for o, and for ``b c`` if it is reduced;
- enters the next round when its last message has left and the last that it waits for is in place.

A rank that is ahead goes on: nobody waits for a round of others to end. The incoming link serves
messages in the order of rounds, also where one of a later round came first. Steps without a peer,
and messages to oneself, cost no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.model import Model
from collectives.pattern import Move, Pattern, Vector, pattern_of
from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What a simulated run took.

    Attributes:
        seconds: when the last rank finished; time 0 is that of ``start``.
        rounds: the number of rounds.
        finish: seconds, float64 (size,): when each rank finished.
        messages: int64 (size,): messages that each rank sent, those to itself left out.
        nbytes: float64 (size,): their bytes.
    """

    seconds: float
    rounds: int
    finish: Vector
    messages: Vector
    nbytes: Vector


def simulate(
    algorithm: Algorithm,
    size: int,
    nbytes: int,
    model: Model | None = None,
    *,
    start: Sequence[float] | Vector | None = None,
    element_bytes: int | None = None,
) -> Simulation:
    """Simulate one run of an algorithm.

    Args:
        algorithm: of the registry, or made by hand.
        size: number of ranks.
        nbytes: length of the buffer of a rank in bytes: of the vector that is reduced or
            broadcast, of the whole result of an allgather, of all that a rank sends in an alltoall.
        model: the costs; the default is ``Model()``.
        start: when each rank begins, in seconds, shape (size,): stragglers. Default: all at 0.
        element_bytes: bytes of an element: blocks are then cut between elements, as in a real run,
            and those without an element are not sent. Default: all blocks are equally long.

    Raises:
        ValueError: a number is out of range, or ``start`` has another length.
        ScheduleError: a message has no partner; the message names rank and round.
    """
    if size < 1:
        raise ValueError(f"size={size}: needs at least 1 rank")
    extent = Extent(algorithm, size, nbytes, element_bytes)
    begin = np.zeros(size) if start is None else np.array(start, float)
    if begin.shape != (size,):
        raise ValueError(f"start: has shape {begin.shape}; needs one number for each of {size}")
    clock = _Clock(begin, model if model is not None else Model(), extent)
    rounds = 0
    for steps in algorithm.generate(clock.rank, size):
        clock.play(rounds, steps)
        rounds += 1
    return Simulation(float(clock.time.max()), rounds, clock.time, clock.messages, clock.nbytes)


class Extent:
    """How many bytes blocks have, when an algorithm runs on buffers of ``nbytes`` bytes.

    Args:
        algorithm: says how many blocks there are.
        size: number of ranks.
        nbytes: of the buffer of a rank, as for `simulate`.
        element_bytes: as for `simulate`.

    Raises:
        ValueError: ``nbytes`` is negative, or not a whole number of elements.
    """

    def __init__(
        self, algorithm: Algorithm, size: int, nbytes: int, element_bytes: int | None = None
    ) -> None:
        if nbytes < 0:
            raise ValueError(f"nbytes={nbytes}: needs 0 or more")
        if element_bytes is not None and (element_bytes < 1 or nbytes % element_bytes):
            raise ValueError(f"element_bytes={element_bytes}: does not divide nbytes={nbytes}")
        # Blocks that are addressed by destination lie in two buffers, half in each.
        self._parts = algorithm.blocks(size) // (1 if algorithm.collective.one_space else 2)
        self._nbytes, self._element = nbytes, element_bytes

    def of(self, block: Any, count: Any) -> Any:
        """Return the bytes of ``count`` blocks from ``block`` on; ints, or arrays over ranks."""
        if self._element is None:
            return count * (self._nbytes / self._parts)
        elements = self._nbytes // self._element
        first = block % self._parts
        upto = (first + count) * elements // self._parts
        return (upto - first * elements // self._parts) * self._element


class _Clock:
    """The time of each rank, and what it has sent, from round to round."""

    def __init__(self, begin: Vector, model: Model, extent: Extent) -> None:
        self.rank = np.arange(begin.size)
        self.time = begin
        self.messages = np.zeros(begin.size, np.int64)
        self.nbytes = np.zeros(begin.size)
        self._model, self._extent = model, extent
        self._incoming = np.full(begin.size, -np.inf)  # when the incoming link is free again
        self._pattern: Pattern | None = None  # of the last round

    def play(self, k: int, steps: Round) -> None:
        m = self._model
        moves = [s for s in steps if not isinstance(s, Zero)]
        lengths = [self._extent.of(s.block, s.count) for s in moves]
        pattern = self._pattern_of(k, moves, lengths)
        sends = [i for i, s in enumerate(moves) if isinstance(s, Send)]
        left = busy = self.time  # the outgoing link, and the processor, are free again
        arrivals = []
        for i in sends:
            remote, length = pattern.remote[i], lengths[i]
            on_link = m.overhead + length * m.byte_time
            arrivals.append(_pick(remote, left + (on_link + m.latency), self.time))
            left = left + remote * np.maximum(on_link, m.gap)
            busy = busy + remote * m.overhead if m.overhead else busy
            self.messages += remote
            self.nbytes += remote * length
        arrived = np.concatenate(arrivals) if len(arrivals) > 1 else arrivals[0] if sends else left
        for i, index in pattern.receives:
            remote, length = pattern.remote[i], lengths[i]
            at = arrived[index]
            on_link = np.maximum(length * m.byte_time, m.gap)
            at = _pick(remote, np.maximum(at, self._incoming + on_link), at)
            self._incoming = _pick(remote, at, self._incoming)
            work = remote * m.overhead
            if isinstance(moves[i], Reduce):
                work = work + length * m.reduce_time
            busy = _pick(pattern.active[i], np.maximum(busy, at) + work, busy)
        self.time = np.maximum(left, busy)

    def _pattern_of(self, k: int, moves: list[Move], lengths: list[Any]) -> Pattern:
        empty = any(np.any(length == 0) for length in lengths)
        if self._pattern is None or empty or not self._pattern.fits(moves):
            pattern = pattern_of(k, self.rank, moves, lengths)
            self._pattern = None if empty else pattern
            return pattern
        return self._pattern


def _pick(mask: Any, yes: Vector, no: Vector) -> Vector:
    """Return ``np.where(mask, yes, no)``, where the mask may be True for everywhere."""
    return yes if mask is True else np.where(mask, yes, no)
