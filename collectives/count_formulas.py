"""How many messages and bytes algorithms send: the formulas of the papers that they name.

p ranks; q is the greatest power of two up to p, e = p - q. Volumes are in buffers of a rank, as
`collectives.extent.Extent` counts them: to be multiplied by n bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from collectives.algorithms.fold import core_size
from collectives.algorithms.torus import row_length

Number: TypeAlias = "int | Fraction"
Settings: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """What is sent in one run; None stands for no closed form. What stays on a rank is left out.

    Attributes:
        most_messages: of the rank that sends most.
        messages: of all ranks together.
        most_volume: of the rank that sends most.
        volume: of all ranks together.
    """

    most_messages: Number | None
    messages: Number | None
    most_volume: Number | None
    volume: Number | None


Formula: TypeAlias = Callable[[int, Settings], Counts]
"""``formula(size, tunables)``."""


def _alike(p: int, messages: int, volume: Number) -> Counts:
    """Return the counts where all ranks send as much."""
    return Counts(messages, p * messages, volume, p * volume)


def _folded(p: int, messages: int, volume: Number) -> Counts:
    """Return them where q ranks send as much, and e hosts one more vector, as do their guests."""
    q = core_size(p)
    e = p - q
    one = int(e > 0)
    return Counts(messages + one, q * messages + 2 * e, volume + one, q * volume + 2 * e)


def _log(q: int) -> int:
    return (q - 1).bit_length()


def _ring(p: int, s: Settings) -> Counts:
    return _alike(p, (p - 1) * s.get("segments", 1), Fraction(p - 1, p))


def _both_ways(p: int, s: Settings) -> Counts:
    return _alike(p, (p - 1) * (2 if p > 2 else 1), Fraction(p - 1, p))


def _twice(half: Formula) -> Formula:
    def whole(p: int, s: Settings) -> Counts:
        c = half(p, s)
        numbers = (c.most_messages, c.messages, c.most_volume, c.volume)
        return Counts(*(None if n is None else 2 * n for n in numbers))

    return whole


def _torus(p: int, s: Settings) -> Counts:
    x = row_length(p, s["width"])
    return _alike(p, 2 * (x - 1) + 2 * (p // x - 1), Fraction(2 * (p - 1), p))


def _bruck_messages(p: int, radix: int) -> int:
    messages, held = 0, 1
    while held < p:
        messages += min(radix, -(-p // held)) - 1
        held *= radix
    return messages


def _bruck(p: int, s: Settings) -> Counts:
    return _alike(p, _bruck_messages(p, s.get("radix", 2)), Fraction(p - 1, p))


def _bruck_alltoall(p: int, s: Settings) -> Counts:
    hops = sum(_digits(i, s["radix"]) for i in range(p))
    return _alike(p, _bruck_messages(p, s["radix"]), Fraction(hops, p))


def _digits(i: int, radix: int) -> int:
    """Return how many digits of i are not 0."""
    return i and (i % radix > 0) + _digits(i // radix, radix)


def _halving(p: int, s: Settings) -> Counts:
    q = core_size(p)
    e = p - q
    each = Fraction(p - 1, p)
    return Counts(_log(q) + (e > 0), q * _log(q) + 2 * e, 1 if e else each, q * each + e)


def _doubling(p: int, s: Settings) -> Counts:
    q = core_size(p)
    e = p - q
    # Rank 0 has the most guests on its side in each round, and sends its guest all but one block.
    blocks = sum(bit + min(e, bit) for bit in (1 << k for k in range(_log(q)))) + (e > 0) * (p - 1)
    return Counts(_log(q) + (e > 0), q * _log(q) + 2 * e, Fraction(blocks, p), p - 1)


def _whole_vectors(p: int, s: Settings) -> Counts:
    return _folded(p, _log(core_size(p)), _log(core_size(p)))


def _rabenseifner(p: int, s: Settings) -> Counts:
    q = core_size(p)
    return _folded(p, 2 * _log(q), Fraction(2 * (q - 1), q))


def _rabenseifner_reduce(p: int, s: Settings) -> Counts:
    q = core_size(p)
    if q == 1:
        return Counts(0, 0, 0, 0)
    volume = p - 1 + Fraction(_log(q), 2)
    return Counts(
        _log(q) + 1, p - q + q * _log(q) + q - 1, Fraction(q - 1, q) + Fraction(1, 2), volume
    )


# Trees: the root sends most where data go down, and everyone but the root once where they go up.


def _down(p: int, most: int) -> Counts:
    return Counts(most, p - 1, most, p - 1)


def _subtrees(p: int) -> Fraction:
    """Return the volume of all subtrees of a binomial tree: the depth of each rank, in blocks."""
    return Fraction(sum(rank.bit_count() for rank in range(p)), p)


def _binomial_scatter(p: int, s: Settings) -> Counts:
    return Counts(_log(p), p - 1, Fraction(p - 1, p), _subtrees(p))


def _binomial_gather(p: int, s: Settings) -> Counts:
    largest = max((min(1 << k, p - (1 << k)) for k in range(_log(p))), default=0)
    return Counts(min(1, p - 1), p - 1, Fraction(largest, p), _subtrees(p))


def _tree_barrier(p: int, s: Settings) -> Counts:
    return Counts(_log(p), 2 * (p - 1), _log(p), p - 1 + _subtrees(p))


def _scatter_allgather(p: int, s: Settings) -> Counts:
    most = Fraction(2 * (p - 1), p)
    return Counts(_log(p) + p - 1, p**2 - 1, most, p - 1 + _subtrees(p))


def _chain(p: int, s: Settings) -> Counts:
    some = min(1, p - 1)
    return Counts(some * s["segments"], (p - 1) * s["segments"], some, p - 1)


def _chain_allreduce(p: int, s: Settings) -> Counts:
    most = min(2, p - 1)
    return Counts(most * s["segments"], 2 * (p - 1) * s["segments"], most, 2 * (p - 1))


def _double_tree(p: int, s: Settings) -> Counts:
    trees = 2 if p > 2 else 1  # both halves go to the same rank, in one message
    some = min(1, p - 1)
    messages = trees * s["segments"]
    return Counts(some * messages, (p - 1) * messages, some, p - 1)


def _double_tree_allreduce(p: int, s: Settings) -> Counts:
    # Where one tree sums up an edge that the other goes down, some messages travel as one.
    most = Fraction(3, 2) if p == 3 else min(2, p - 1)
    return Counts(None, None, most, 2 * (p - 1))


def _linear_scatter(p: int, s: Settings) -> Counts:
    return Counts(p - 1, p - 1, Fraction(p - 1, p), Fraction(p - 1, p))


def _linear_gather(p: int, s: Settings) -> Counts:
    return Counts(min(1, p - 1), p - 1, Fraction(min(1, p - 1), p), Fraction(p - 1, p))


def _linear_reduce_scatter(p: int, s: Settings) -> Counts:
    return Counts(p - 1, 2 * (p - 1), min(1, p - 1), p - Fraction(1, p))


def _linear_allgather(p: int, s: Settings) -> Counts:
    return Counts(p - 1, 2 * (p - 1), p - 1, p - Fraction(1, p))


COUNTS: dict[tuple[str, str], Formula] = {
    ("allreduce", "linear"): lambda p, s: Counts(p - 1, 2 * (p - 1), p - 1, 2 * (p - 1)),
    ("allreduce", "direct"): _twice(_ring),
    ("allreduce", "ring"): _twice(_ring),
    ("allreduce", "bidirectional_ring"): _twice(_both_ways),
    ("allreduce", "torus"): _torus,
    ("allreduce", "tree"): lambda p, s: Counts(_log(p), 2 * (p - 1), _log(p), 2 * (p - 1)),
    ("allreduce", "chain"): _chain_allreduce,
    ("allreduce", "double_tree"): _double_tree_allreduce,
    ("allreduce", "recursive_doubling"): _whole_vectors,
    ("allreduce", "rabenseifner"): _rabenseifner,
    ("allreduce", "swing"): _rabenseifner,
    ("reduce_scatter", "linear"): _linear_reduce_scatter,
    ("reduce_scatter", "direct"): _ring,
    ("reduce_scatter", "pairwise"): _ring,
    ("reduce_scatter", "ring"): _ring,
    ("reduce_scatter", "bidirectional_ring"): _both_ways,
    ("reduce_scatter", "recursive_halving"): _halving,
    ("allgather", "linear"): _linear_allgather,
    ("allgather", "direct"): _ring,
    ("allgather", "ring"): _ring,
    ("allgather", "bidirectional_ring"): _both_ways,
    ("allgather", "recursive_doubling"): _doubling,
    ("allgather", "bruck"): _bruck,
    ("alltoall", "direct"): _ring,
    ("alltoall", "pairwise"): _ring,
    ("alltoall", "bruck"): _bruck_alltoall,
    ("bcast", "linear"): lambda p, s: _down(p, p - 1),
    ("bcast", "binomial"): lambda p, s: _down(p, _log(p)),
    ("bcast", "chain"): _chain,
    ("bcast", "double_tree"): _double_tree,
    ("bcast", "scatter_allgather"): _scatter_allgather,
    ("reduce", "linear"): lambda p, s: _down(p, min(1, p - 1)),
    ("reduce", "binomial"): lambda p, s: _down(p, min(1, p - 1)),
    ("reduce", "chain"): _chain,
    ("reduce", "double_tree"): _double_tree,
    ("reduce", "rabenseifner"): _rabenseifner_reduce,
    ("scatter", "linear"): _linear_scatter,
    ("scatter", "binomial"): _binomial_scatter,
    ("gather", "linear"): _linear_gather,
    ("gather", "binomial"): _binomial_gather,
    ("barrier", "linear"): _linear_allgather,
    ("barrier", "tree"): _tree_barrier,
    ("barrier", "dissemination"): _bruck,
    ("barrier", "recursive_doubling"): _doubling,
}
"""The formulas that are known, by collective and algorithm; those of hierarchical ones are sums."""
