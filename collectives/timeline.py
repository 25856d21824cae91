"""The simulated time of a schedule on few ranks, quickly: what `collectives.select` compares.

The recurrence is that of `collectives.simulate`, message by message. The schedule is laid out once,
for any number of bytes and any model, so that a time takes microseconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from collectives.collective import BARRIER
from collectives.extent import Extent
from collectives.model import Model
from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero, rounds_of


class _Sent(NamedTuple):
    """A message as its sender sees it; lengths are shares of the buffer of a rank."""

    rank: int
    share: float


class _Taken(NamedTuple):
    """A message as its receiver sees it; ``message`` is None where it is from itself."""

    rank: int
    message: int | None
    share: float
    reduced: float


class Timeline:
    """An algorithm on a few ranks, laid out.

    Args:
        algorithm: of the registry, or made by hand; each message has a partner.
        size: number of ranks.
    """

    def __init__(self, algorithm: Algorithm, size: int) -> None:
        extent = Extent(algorithm, size, 1)
        # The lengths of a barrier are bytes, all others are shares.
        self._barrier = algorithm.collective.name == BARRIER.name
        self._size = size
        ranks = [rounds_of(algorithm.generate, rank, size) for rank in range(size)]
        self._rounds = [_lay_out(steps, extent) for steps in zip(*ranks, strict=True)]

    def seconds(self, nbytes: int, model: Model, limit: float = math.inf) -> float:
        """Return when the last rank finishes.

        Args:
            nbytes: length of the buffer of a rank, as `collectives.extent.Extent` says.
            model: the costs.
            limit: stop here, and return when somebody is further, as soon as somebody is.
        """
        n = 1 if self._barrier else nbytes
        if n == 0:
            return 0.0  # nothing is sent
        o, gap = model.overhead, model.gap
        a_byte, a_sum = n * model.byte_time, n * model.reduce_time
        now = [0.0] * self._size
        port = [-math.inf] * self._size  # when the incoming link is free again
        for sent, taken in self._rounds:
            left, busy, arrived = now[:], now[:], []
            for rank, share in sent:
                on_link = o + share * a_byte
                arrived.append(left[rank] + on_link + model.latency)
                left[rank] += max(on_link, gap)
                busy[rank] += o
            for rank, message, share, reduced in taken:
                if message is None:
                    busy[rank] += reduced * a_sum
                    continue
                there = max(arrived[message], port[rank] + max(share * a_byte, gap))
                port[rank] = there
                busy[rank] = max(busy[rank], there) + o + reduced * a_sum
            now = list(map(max, left, busy))
            if max(now) > limit:
                break
        return max(now)


def _lay_out(steps: tuple[Round, ...], extent: Extent) -> tuple[list[_Sent], list[_Taken]]:
    """Return the messages of a round, in the order in which ranks handle theirs."""
    sent: list[_Sent] = []
    number: dict[tuple[int, int], int] = {}
    for rank, mine in enumerate(steps):
        for peer, (share, _) in _messages(mine, extent, sending=True).items():
            if peer != rank:
                number[rank, peer] = len(sent)
                sent.append(_Sent(rank, share))
    taken = [
        _Taken(rank, number[peer, rank] if peer != rank else None, share, reduced)
        for rank, mine in enumerate(steps)
        for peer, (share, reduced) in _messages(mine, extent, sending=False).items()
    ]
    return sent, taken


def _messages(steps: Round, extent: Extent, *, sending: bool) -> dict[int, tuple[float, float]]:
    """Return for each peer the share that goes one way, and how much of it is reduced."""
    found: dict[int, tuple[float, float]] = {}
    for s in steps:
        if not isinstance(s, Zero) and isinstance(s, Send) == sending:
            share = float(extent.of(s.block, s.count))
            peer = int(s.peer)
            length, reduced = found.get(peer, (0.0, 0.0))
            found[peer] = length + share, reduced + share * isinstance(s, Reduce)
    return found
