"""The max-plus recurrence of `collectives.simulate`: the time of each rank from round to round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.extent import Extent
from collectives.model import Model
from collectives.noise import NoiseSource
from collectives.pattern import Pattern, pattern_of
from collectives.sides import Lot, Side, Vector, pick
from collectives.step import Round, Zero
from collectives.topology import SharedLinks, Topology


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What the messages of a side cost; each a number, or an array over them."""

    latency: Any
    overhead: Any
    byte_time: Any
    gap: Any
    reduce_time: Any


class Rates:
    """The parameters of all messages: they depend on where both ends are, and on slow ranks.

    Args:
        model: the costs.
        size: number of ranks.
        slow: how many times as long each rank takes, float64 (size,); None: as long as the model
            says.
    """

    def __init__(self, model: Model | Topology, size: int, slow: Vector | None) -> None:
        self.node: Vector | None = None
        self.nodes = 0
        if isinstance(model, Topology):
            self._near, self._beyond = model.within, model.between
            self.node, self.nodes = model.node_of(size), model.nodes(size)
        else:
            self._near = self._beyond = model
        self._slow = slow

    def of(self, side: Side) -> Costs:
        """Return the costs of the messages of a side."""
        slow: Any = 1.0 if self._slow is None else self._slow[side.rank]
        return Costs(
            self._value(side, "latency"),
            self._value(side, "overhead") * slow,
            self._value(side, "byte_time") * slow,
            self._value(side, "gap"),
            self._near.reduce_time * slow,
        )

    def _value(self, side: Side, name: str) -> Any:
        value = getattr(self._near, name)
        if side.far is not False:
            value = np.where(side.far, getattr(self._beyond, name), value)
        return value if side.local is False else np.where(side.local, 0.0, value)


class Clock:
    """The time of each rank, and what it has sent.

    Args:
        begin: when each rank begins, in seconds, float64 (size,).
        rates: what messages cost.
        extent: how long they are.
        noise: where random delays come from; None: there are none.

    Attributes:
        time: seconds, float64 (size,).
        messages: int64 (size,).
        nbytes: float64 (size,).
    """

    def __init__(
        self, begin: Vector, rates: Rates, extent: Extent, noise: NoiseSource | None
    ) -> None:
        self.time = begin
        self.messages = np.zeros(begin.size, np.int64)
        self.nbytes = np.zeros(begin.size)
        self._rates, self._extent, self._noise = rates, extent, noise
        self._incoming = np.full(begin.size, -np.inf)  # when the incoming link is free again
        self._outer, self._inner = SharedLinks(rates.nodes), SharedLinks(rates.nodes)
        self._last: tuple[Pattern, Costs, Costs] | None = None  # of the last round

    def play(self, k: int, steps: Round) -> None:
        """Let all ranks go through round ``k``.

        Raises:
            ScheduleError: a message has no partner.
        """
        moves = [s for s in steps if not isinstance(s, Zero)]
        lengths = [self._extent.of(s.block, s.count) for s in moves]
        empty = any((n == 0).any() if isinstance(n, np.ndarray) else n == 0 for n in lengths)
        if self._last is None or empty or not self._last[0].fits(moves):
            pattern = pattern_of(k, self.time.size, moves, lengths, self._rates.node)
            self._last = pattern, self._rates.of(pattern.out), self._rates.of(pattern.into)
        pattern, sending, taking = self._last
        if empty:  # which ranks have nothing to send may change
            self._last = None
        if self._noise is not None:
            self.time[pattern.active] += self._noise.interruptions(self.time[pattern.active].size)
        # When the outgoing link, and the processor, are free again.
        left, busy = self.time.copy(), self.time.copy()
        arrived = self._send(pattern.out, sending, lengths, left, busy)
        if pattern.into.local is not False:
            arrived = np.concatenate([arrived, self.time])
        self._take(pattern.into, taking, lengths, arrived[pattern.index], busy)
        self.time = np.maximum(left, busy)

    def _send(
        self, side: Side, costs: Costs, lengths: list[Any], left: Vector, busy: Vector
    ) -> Vector:
        """Send the messages of a side; return when each is at its receiver."""
        nbytes = side.nbytes(lengths)
        late = self._noise.messages(side.rank.size) if self._noise is not None else 0.0
        arrived = np.empty(side.rank.size)
        for lot in side.lots:
            m, r = lot.messages, lot.ranks
            length, o = pick(nbytes, m), pick(costs.overhead, m)
            on_link = length * pick(costs.byte_time, m)
            begin = left[r]
            if lot.far is not None:
                occupied = np.maximum(on_link, pick(costs.gap, m))
                ready = (begin + o)[lot.far]
                waited = self._outer.serve(lot.node, ready, pick(occupied, lot.far)) - ready
                begin = begin.copy()
                begin[lot.far] += waited
            on_link = on_link + o
            underway = on_link + (pick(costs.latency, m) + pick(late, m))
            np.add(begin, underway, out=arrived[m])
            left[r] = begin + np.maximum(on_link, pick(costs.gap, m))
            if isinstance(o, np.ndarray) or o:
                busy[r] += o
            self.messages[r] += 1
            self.nbytes[r] += length
        return arrived

    def _take(
        self, side: Side, costs: Costs, lengths: list[Any], arrived: Vector, busy: Vector
    ) -> None:
        """Take the messages of a side, which have arrived at these times."""
        nbytes = side.nbytes(lengths)
        work = costs.overhead + side.reduced(lengths) * costs.reduce_time
        for lot in side.lots:
            m, r = lot.messages, lot.ranks
            on_link = np.maximum(pick(nbytes, m) * pick(costs.byte_time, m), pick(costs.gap, m))
            there = self._through(lot, arrived[m], on_link)
            busy[r] = np.maximum(busy[r], there) + pick(work, m)

    def _through(self, lot: Lot, arrived: Vector, on_link: Any) -> Vector:
        """Let the messages of a lot through the incoming links; return when they are in place."""
        if lot.own is None:
            self._incoming[lot.ranks] = np.maximum(arrived, self._incoming[lot.ranks] + on_link)
            there: Vector = self._incoming[lot.ranks]
            return there
        ranks = np.arange(self.time.size)[lot.ranks]
        there, mine = arrived.copy(), ranks[lot.own]
        there[lot.own] = np.maximum(arrived[lot.own], self._incoming[mine] + pick(on_link, lot.own))
        self._incoming[mine] = there[lot.own]
        if lot.far is not None:
            taken = pick(on_link, lot.far)
            there[lot.far] = self._inner.serve(lot.node, arrived[lot.far] - taken, taken) + taken
        return there
