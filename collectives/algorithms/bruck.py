"""Bruck's algorithms: the fewest rounds, ceil(log2 p); with a greater radix fewer still.

In an allgather everyone passes on all that it has, and so has ``radix`` times as much after a
round. In an alltoall the block for the rank i further on is passed on once for each digit of i
that is not 0, together with all others that have the same digit: more bytes, far fewer messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.wrapped import wrapped
from collectives.collective import ALLGATHER, ALLTOALL
from collectives.registry import Tunable, algorithm
from collectives.step import Recv, Round, Send

PAPER = "Bruck et al. 1997"
RADIX = {
    "radix": Tunable(
        2,
        lambda size: [r for r in (2, 3, 4, 8, 16) if r <= max(2, size)],
        "ranks that one hears from in a round, and oneself",
        least=2,
    )
}


@algorithm(ALLGATHER, blocks=lambda size, **_: size, name="bruck", paper=PAPER, tunables=RADIX)
def allgather(rank: Any, size: int, radix: int = 2) -> Iterator[Round]:
    """Hear, from those at ever greater distances ahead, all that they have."""
    held = 1  # blocks rank .. rank + held - 1, in a circle
    while held < size:
        steps: Round = []
        for ahead in range(held, min(radix * held, size), held):
            to, frm = (rank - ahead) % size, (rank + ahead) % size
            count = min(held, size - ahead)
            steps += wrapped(Send, to, rank, count, size) + wrapped(Recv, frm, frm, count, size)
        yield steps
        held *= radix


@algorithm(ALLTOALL, blocks=lambda size, **_: 3 * size, name="bruck", paper=PAPER, tunables=RADIX)
def alltoall(rank: Any, size: int, radix: int = 2) -> Iterator[Round]:
    """Send a block that goes i ranks further digit by digit of i, with all that share the digit."""

    def place(i: int, hops: int) -> Any:
        """Where the block with way i waits after so many hops; the last one ends in its place."""
        if hops == 0:
            return (rank + i) % size
        return size + (rank - i) % size if (_hops(i, radix) - hops) % 2 == 0 else 2 * size + i

    steps: Round = [Send(rank, rank), Recv(rank, size + rank)]
    if size == 1:
        yield steps
    weight = 1
    while weight < size:
        for digit in range(1, radix):
            to, frm = (rank + digit * weight) % size, (rank - digit * weight) % size
            for i in range(digit * weight, size):
                if i // weight % radix == digit:
                    done = _hops(i % weight, radix)
                    steps += [Send(to, place(i, done)), Recv(frm, place(i, done + 1))]
        yield steps
        steps = []
        weight *= radix


def _hops(i: int, radix: int) -> int:
    """Return how many digits of i are not 0."""
    hops = 0
    while i:
        hops += i % radix > 0
        i //= radix
    return hops
