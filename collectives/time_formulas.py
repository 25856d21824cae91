"""How long algorithms take, in the symbols of `collectives.model.Model`: the textbook formulas.

Each is a function of p ranks, n bytes and a model, and of the tunables that it depends on. After
Thakur, Rabenseifner & Gropp 2005 (their table, with the reduction's cost), Pjesivac-Grbovic et al.
2007 and Ben-Nun & Hoefler 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from collectives.algorithms.batches import MANY, batches
from collectives.algorithms.fold import core_size
from collectives.algorithms.segments import DEFAULT
from collectives.algorithms.torus import row_length
from collectives.model import Model


def log2_up(p: int) -> int:
    """Return the number of rounds in which one rank can reach p: ceil(log2 p)."""
    return (p - 1).bit_length()


def interval(b: float, m: Model) -> float:
    """Return the seconds between two messages of b bytes that a rank sends in a row."""
    return max(m.overhead + b * m.byte_time, m.gap)


def exchange(lengths: Sequence[float], m: Model, *, reduce: bool = False) -> float:
    """Return the seconds of a round in which every rank sends and gets messages of these bytes."""
    left = link = 0.0
    busy = len(lengths) * m.overhead
    for b in lengths:
        arrived = left + m.overhead + b * m.byte_time + m.latency
        link = max(arrived, link + max(b * m.byte_time, m.gap))
        busy = max(busy, link) + m.overhead + (b * m.reduce_time if reduce else 0.0)
        left += interval(b, m)
    return max(left, busy)


# One message after the other, all ranks alike.


def ring_allgather(p: int, n: float, m: Model, segments: int = 1) -> float:
    """Allgather round a ring, or pair by pair."""
    return (p - 1) * segments * m.message(n / (p * segments))


def ring_reduce_scatter(p: int, n: float, m: Model, segments: int = 1) -> float:
    """Reduce-scatter round a ring, or pair by pair."""
    return ring_allgather(p, n, m, segments) + (p - 1) * n / p * m.reduce_time


def ring(p: int, n: float, m: Model, segments: int = 1) -> float:
    """Allreduce round a ring."""
    return ring_reduce_scatter(p, n, m, segments) + ring_allgather(p, n, m, segments)


def torus(p: int, n: float, m: Model, width: int = 0) -> float:
    """Allreduce along rows and columns."""
    x = row_length(p, width)
    y = p // x
    rows = ring_reduce_scatter(x, n, m) + ring_allgather(x, n, m)
    return rows + ring(y, n / x, m)


def bidirectional_allgather(p: int, n: float, m: Model, *, reduce: bool = False) -> float:
    """Allgather round a ring in both directions."""
    lengths = [n / (2 * p)] * 2 if p > 2 else [n / p]
    return (p - 1) * exchange(lengths, m, reduce=reduce)


def bidirectional_reduce_scatter(p: int, n: float, m: Model) -> float:
    """Reduce-scatter round a ring in both directions."""
    return bidirectional_allgather(p, n, m, reduce=True)


def bidirectional_ring(p: int, n: float, m: Model) -> float:
    """Allreduce round a ring in both directions."""
    return bidirectional_reduce_scatter(p, n, m) + bidirectional_allgather(p, n, m)


# Many messages at once, all ranks alike.


def direct_allgather(
    p: int, n: float, m: Model, window: int = MANY, *, reduce: bool = False
) -> float:
    """Allgather, or alltoall, straight from each rank to each other."""
    rounds = batches(p, window)
    return sum(exchange([n / p] * len(ks), m, reduce=reduce) for ks in rounds)


def direct_reduce_scatter(p: int, n: float, m: Model, window: int = MANY) -> float:
    """Reduce-scatter straight from each rank to each other."""
    return direct_allgather(p, n, m, window, reduce=True)


def direct(p: int, n: float, m: Model, window: int = MANY) -> float:
    """Allreduce straight from each rank to each other, twice."""
    return direct_reduce_scatter(p, n, m, window) + direct_allgather(p, n, m, window)


def bruck_allgather(p: int, n: float, m: Model, radix: int = 2) -> float:
    """Allgather over ever greater distances."""
    seconds, held = 0.0, 1
    while held < p:
        aheads = range(held, min(radix * held, p), held)
        seconds += exchange([min(held, p - a) * n / p for a in aheads], m)
        held *= radix
    return seconds


def bruck_alltoall(p: int, n: float, m: Model, radix: int = 2) -> float:
    """Alltoall digit by digit."""
    seconds, weight = 0.0, 1
    while weight < p:
        whole, rest = divmod(p, weight * radix)
        digits = range(1, min(radix, -(-p // weight)))
        counts = [whole * weight + min(max(rest - d * weight, 0), weight) for d in digits]
        seconds += exchange([count * n / p for count in counts], m)
        weight *= radix
    return seconds


# Halving and doubling.


def recursive_doubling(p: int, n: float, m: Model) -> float:
    """Allreduce of whole vectors; p is a power of two."""
    return log2_up(p) * (m.message(n) + n * m.reduce_time)


def doubling(p: int, n: float, m: Model) -> float:
    """Allgather with 1, 2, 4, ... parts of p; p is a power of two."""
    return log2_up(p) * m.message(0) + (p - 1) / p * n * m.byte_time


def halving(p: int, n: float, m: Model) -> float:
    """Reduce-scatter with ..., 4, 2, 1 parts of p; p is a power of two."""
    return doubling(p, n, m) + (p - 1) / p * n * m.reduce_time


def rabenseifner(p: int, n: float, m: Model) -> float:
    """Allreduce by halving and doubling, folded onto a power of two."""
    unfold = 0.0 if core_size(p) == p else m.message(n)
    return rabenseifner_reduce(p, n, m) + unfold


def rabenseifner_reduce(p: int, n: float, m: Model) -> float:
    """Reduction by halving and a gather, folded onto a power of two."""
    core = core_size(p)
    fold = 0.0 if core == p else m.message(n) + n * m.reduce_time
    return fold + halving(core, n, m) + doubling(core, n, m)


# Trees and chains.


def _down(p: int, b: float, whole: float, m: Model) -> float:
    """Return the seconds down a binomial tree: ``b`` bytes for each rank below, and ``whole``."""
    if p == 1:
        return 0.0
    keep = 1 << log2_up(p) - 1
    give = p - keep
    sent = whole + give * b
    rest = _down(keep, b, whole, m)
    below = rest if give == keep else _down(give, b, whole, m)
    return max(m.message(sent) + below, interval(sent, m) + rest)


def _up(p: int, b: float, whole: float, m: Model, reduce_time: float) -> tuple[float, float]:
    """Return when rank 0 has all of a binomial tree, and when its link is free before that."""
    if p == 1:
        return 0.0, -inf
    have = 1 << log2_up(p) - 1
    give = p - have
    sent = whole + give * b
    done, link = _up(have, b, whole, m, reduce_time)
    ready = done if give == have else _up(give, b, whole, m, reduce_time)[0]
    arrival = ready + m.message(sent) - m.overhead
    there = max(arrival, link + max(sent * m.byte_time, m.gap))
    return max(done, there) + m.overhead + sent * reduce_time, there


def binomial_bcast(p: int, n: float, m: Model) -> float:
    """Broadcast down a binomial tree."""
    return _down(p, 0.0, n, m)


def binomial_reduce(p: int, n: float, m: Model) -> float:
    """Reduction up a binomial tree."""
    return _up(p, 0.0, n, m, m.reduce_time)[0]


def tree(p: int, n: float, m: Model) -> float:
    """Allreduce up and down a binomial tree."""
    return binomial_reduce(p, n, m) + binomial_bcast(p, n, m)


def binomial_scatter(p: int, n: float, m: Model) -> float:
    """Scatter down a binomial tree."""
    return _down(p, n / p, 0.0, m)


def binomial_gather(p: int, n: float, m: Model) -> float:
    """Gather up a binomial tree."""
    return _up(p, n / p, 0.0, m, 0.0)[0]


def tree_barrier(p: int, n: float, m: Model) -> float:
    """Barrier up and down a binomial tree."""
    return binomial_gather(p, n, m) + binomial_bcast(p, n, m)


def scatter_allgather(p: int, n: float, m: Model) -> float:
    """Broadcast by a scatter down a tree and an allgather round a ring."""
    return binomial_scatter(p, n, m) + ring_allgather(p, n, m)


def chain_bcast(p: int, n: float, m: Model, segments: int = DEFAULT) -> float:
    """Broadcast along a chain."""
    b = n / segments
    slowest = max(interval(b, m), 2 * m.overhead if p > 2 else m.overhead)
    return (p - 1) * m.message(b) + (segments - 1) * slowest if p > 1 else 0.0


def chain_reduce(p: int, n: float, m: Model, segments: int = DEFAULT) -> float:
    """Reduction along a chain."""
    b = n / segments
    summing = b * m.reduce_time
    slowest = max(interval(b, m), (2 * m.overhead if p > 2 else m.overhead) + summing)
    return (p - 1) * (m.message(b) + summing) + (segments - 1) * slowest if p > 1 else 0.0


# Through the root.


def _to_many(p: int, b: float, m: Model) -> float:
    return m.message(b) + (p - 2) * interval(b, m) if p > 1 else 0.0


def _from_many(p: int, b: float, m: Model, *, reduce: bool = False) -> float:
    work = m.overhead + (b * m.reduce_time if reduce else 0.0)
    slowest = max(b * m.byte_time, m.gap, work)
    return m.message(b) - m.overhead + work + (p - 2) * slowest if p > 1 else 0.0


def linear_bcast(p: int, n: float, m: Model) -> float:
    """Broadcast to one rank after the other."""
    return _to_many(p, n, m)


def linear_scatter(p: int, n: float, m: Model) -> float:
    """Scatter to one rank after the other."""
    return _to_many(p, n / p, m)


def linear_reduce(p: int, n: float, m: Model) -> float:
    """Reduction of one rank's vector after the other."""
    return _from_many(p, n, m, reduce=True)


def linear_gather(p: int, n: float, m: Model) -> float:
    """Gather from one rank after the other."""
    return _from_many(p, n / p, m)


def linear(p: int, n: float, m: Model) -> float:
    """Allreduce through rank 0."""
    return linear_reduce(p, n, m) + linear_bcast(p, n, m)


def linear_reduce_scatter(p: int, n: float, m: Model) -> float:
    """Reduce-scatter through rank 0."""
    return linear_reduce(p, n, m) + linear_scatter(p, n, m)


def linear_allgather(p: int, n: float, m: Model) -> float:
    """Allgather through rank 0."""
    return linear_gather(p, n, m) + linear_bcast(p, n, m)
