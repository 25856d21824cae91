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
messages in the order of rounds, also where one of a later round came first. Steps of a round
between the same two ranks, in the same direction, are one message. Steps without a peer, and
messages to oneself, cost no network.

With a `collectives.topology.Topology` a message between nodes takes, in place of the link of its
rank, the links of the two nodes, which all ranks of a node share: the first messages of all ranks
of a round in the order in which they are ready, then the second ones, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from collectives.clock import Clock, Rates
from collectives.extent import Extent
from collectives.model import Model
from collectives.noise import Noise, NoiseSource
from collectives.registry import Algorithm
from collectives.sides import Vector
from collectives.topology import Topology


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
    model: Model | Topology | None = None,
    *,
    start: Sequence[float] | Vector | None = None,
    slow: Sequence[float] | Vector | None = None,
    noise: Noise | None = None,
    element_bytes: int | None = None,
    played: Callable[[], object] | None = None,
) -> Simulation:
    """Simulate one run of an algorithm.

    Args:
        algorithm: of the registry, or made by hand.
        size: number of ranks.
        nbytes: length of the buffer of a rank in bytes, as `collectives.extent.Extent` says.
        model: the costs; the default is ``Model()``.
        start: when each rank begins, in seconds, shape (size,). Default: all at 0.
        slow: how many times as long as others each rank takes for its overheads, sums and bytes,
            shape (size,). Default: 1 for all.
        noise: random delays. Default: none.
        element_bytes: bytes of an element: blocks are then cut between elements, as in a real run,
            and those without an element are not sent. Default: all blocks are equally long.
        played: called after each round, to show how far it is.

    Raises:
        ValueError: a number is out of range, or ``start`` or ``slow`` has another length.
        ScheduleError: a message has no partner; the message names rank and round.
    """
    if size < 1:
        raise ValueError(f"size={size}: needs at least 1 rank")
    extent = Extent(algorithm, size, nbytes, element_bytes)
    begin = _per_rank("start", start, size)
    factor = None if slow is None else _per_rank("slow", slow, size)
    if factor is not None and not (np.isfinite(factor).all() and factor.min() > 0):
        raise ValueError("slow: needs finite numbers above 0")
    rates = Rates(model if model is not None else Model(), size, factor)
    clock = Clock(begin, rates, extent, NoiseSource(noise) if noise is not None else None)
    rounds = 0
    for steps in algorithm.generate(np.arange(size), size):
        clock.play(rounds, steps)
        rounds += 1
        if played is not None:
            played()
    return Simulation(float(clock.time.max()), rounds, clock.time, clock.messages, clock.nbytes)


def _per_rank(name: str, values: Sequence[float] | Vector | None, size: int) -> Vector:
    found = np.zeros(size) if values is None else np.array(values, float)
    if found.shape != (size,):
        raise ValueError(f"{name}: has shape {found.shape}; needs one number for each of {size}")
    return found
