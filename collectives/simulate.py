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
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.model import Model
from collectives.registry import Algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send, Zero
from collectives.verify import ScheduleError

Vector: TypeAlias = npt.NDArray[Any]
Move: TypeAlias = "Send | Recv | Reduce"


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
        self._pattern: _Pattern | None = None  # of the last round

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

    def _pattern_of(self, k: int, moves: list[Move], lengths: list[Any]) -> _Pattern:
        empty = any(np.any(length == 0) for length in lengths)
        if self._pattern is None or empty or not self._pattern.fits(moves):
            pattern = _pattern(k, self.rank, moves, lengths)
            self._pattern = None if empty else pattern
            return pattern
        return self._pattern


@dataclass(frozen=True, slots=True, eq=False)
class _Pattern:
    """Who talks to whom in a round. Many algorithms have the same pattern round after round.

    Attributes:
        moves: the steps that it was made of.
        active: for each step, which ranks take part: a mask, or True for all.
        remote: for each step, which ranks use the network.
        receives: the number of each receive step, and for each rank the position of its message
            among all sends.
    """

    moves: list[Move]
    active: list[Any]
    remote: list[Any]
    receives: list[tuple[int, Vector]]

    def fits(self, moves: list[Move]) -> bool:
        """Return whether these steps have the same kinds and the very same arrays of peers."""
        return len(moves) == len(self.moves) and all(
            type(a) is type(b) and a.peer is b.peer for a, b in zip(moves, self.moves, strict=True)
        )


def _pattern(k: int, rank: Vector, moves: list[Move], lengths: list[Any]) -> _Pattern:
    # Where there is no data to move no message is sent, as in a run.
    peers = [
        np.where(np.equal(length, 0), NULL, np.broadcast_to(s.peer, rank.shape))
        for s, length in zip(moves, lengths, strict=True)
    ]
    sends = [i for i, s in enumerate(moves) if isinstance(s, Send)]
    receives = [i for i, s in enumerate(moves) if not isinstance(s, Send)]
    index = _match(k, rank, [peers[i] for i in sends], [peers[i] for i in receives])
    return _Pattern(
        moves,
        [_mask(p != NULL) for p in peers],
        [_mask((p != NULL) & (p != rank)) for p in peers],
        list(zip(receives, index, strict=True)),
    )


def _mask(mask: Vector) -> Any:
    """Return a mask, or True where it is true for all: the common case, and the faster one."""
    return True if mask.all() else mask


def _pick(mask: Any, yes: Vector, no: Vector) -> Vector:
    """Return ``np.where(mask, yes, no)``, where the mask may be True for everywhere."""
    return yes if mask is True else np.where(mask, yes, no)


def _match(
    k: int, rank: Vector, targets: Sequence[Vector], sources: Sequence[Vector]
) -> list[Vector]:
    """Return, for each receive step, the position of each rank's message among all sends.

    Args:
        k: the number of the round.
        rank: all ranks.
        targets: for each send step, to whom each rank sends.
        sources: for each receive step, from whom each rank receives.

    Raises:
        ScheduleError: a message has no partner.
    """
    if len(targets) == len(sources) == 1:
        (to,), (frm,) = targets, sources
        there = to[frm] == rank
        # If all receive, and from whom sends to them, then no message is left over.
        if there.all() and frm.min() != NULL:
            return [frm]
        there |= frm == NULL
        if there.all() and np.count_nonzero(to != NULL) == np.count_nonzero(frm != NULL):
            return [frm]
    # Several messages between two ranks are matched in order: sort both sides, keeping the order.
    size = rank.size
    none = np.empty(0, np.int64)
    to, frm = np.concatenate([none, *targets]), np.concatenate([none, *sources])
    out, into = np.flatnonzero(to != NULL), np.flatnonzero(frm != NULL)
    sent = (out % size) * size + to[out]
    wanted = frm[into] * size + into % size
    by_sent, by_wanted = np.argsort(sent, kind="stable"), np.argsort(wanted, kind="stable")
    if not np.array_equal(sent[by_sent], wanted[by_wanted]):
        _complain(k, size, sent, wanted)
    position = np.zeros(frm.size, np.int64)
    position[into[by_wanted]] = out[by_sent]
    return np.split(position, len(sources)) if sources else []


def _complain(k: int, size: int, sent: Vector, wanted: Vector) -> None:
    pairs, counts = np.unique(np.concatenate([sent, wanted]), return_inverse=True)
    balance = np.bincount(counts, np.repeat([1.0, -1.0], [sent.size, wanted.size]))
    first = int(np.flatnonzero(balance)[0])
    source, target = divmod(int(pairs[first]), size)
    if balance[first] > 0:
        raise ScheduleError(
            f"rank {source}, round {k}: sends to rank {target}, which does not receive it"
        )
    raise ScheduleError(
        f"rank {target}, round {k}: waits for rank {source}, which does not send to it"
    )
