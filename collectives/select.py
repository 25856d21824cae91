"""Choose an algorithm for a collective, a number of ranks and a number of bytes.

The choice is the algorithm that the model prices lowest. It depends on nothing but its arguments,
so all ranks make the same one without talking, in every run.

The price is `lockstep`: what rank 0 pays if all ranks walk through the rounds in step. It needs no
matching and only rank 0's rounds, so it is cheap: 0.1 s for all algorithms on 10,000 ranks. Rank 0
takes part in the longest chain of messages of all algorithms that ship (it is the root, and a
partner in every fold), so the price equals the full simulation on powers of two; else it is above
it by no more than a factor of two, where the simulation lets ranks run ahead.
"""

from __future__ import annotations

import functools
import math

from collectives.collective import Collective
from collectives.model import Model
from collectives.registry import REGISTRY, Algorithm
from collectives.simulate import Extent
from collectives.step import Reduce, Send, Zero, scalar

PYTHON = Model(latency=5e-7, byte_time=1.5e-10, reduce_time=1.5e-10, overhead=1e-6)
"""The costs of the Python executor between two ranks of one node, to about a factor of two, as
``python -m collectives bench`` measures them: starting a message costs more than the wire."""


@functools.lru_cache(maxsize=1024)
def choose(collective: Collective, size: int, nbytes: int, model: Model = PYTHON) -> str:
    """Return the name of the algorithm that ``algorithm="auto"`` takes.

    Args:
        collective: what to do.
        size: number of ranks.
        nbytes: length of the buffer of a rank, as for `collectives.simulate.simulate`.
        model: the costs.

    Raises:
        ValueError: the collective has no algorithm.
    """
    best, least = "", math.inf
    for name in REGISTRY.names(collective):
        price = lockstep(REGISTRY.get(collective, name), size, nbytes, model, limit=least)
        if price < least:
            best, least = name, price
    if not best:
        raise ValueError(f"collective={collective.name}: no algorithm is registered")
    return best


def lockstep(
    algorithm: Algorithm, size: int, nbytes: int, model: Model, *, limit: float = math.inf
) -> float:
    """Return what rank 0 pays, in seconds, if all ranks go through the rounds in step.

    Args:
        algorithm: what to price.
        size: number of ranks.
        nbytes: length of the buffer of a rank in bytes.
        model: the costs.
        limit: stop here, and return what it is so far, as soon as that is more.
    """
    extent = Extent(algorithm, size, nbytes)
    total = 0.0
    for steps in algorithm.generate(0, size):
        out: list[float] = []  # seconds on the outgoing link, for each message
        into: list[float] = []  # and on the incoming one
        for s in map(scalar, steps):
            if s is None or isinstance(s, Zero):
                continue
            length = extent.of(s.block, s.count)
            if isinstance(s, Reduce):
                total += length * model.reduce_time
            if s.peer != 0 and length:
                link = out if isinstance(s, Send) else into
                link.append(model.overhead + length * model.byte_time)
        if out or into:
            busiest = max(_in_a_row(out, model.gap), _in_a_row(into, model.gap))
            total += model.latency + busiest + model.overhead
        if total > limit:
            break
    return total


def _in_a_row(times: list[float], gap: float) -> float:
    return sum(max(t, gap) for t in times[:-1]) + sum(times[-1:])
