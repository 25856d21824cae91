"""2-D torus: rings along the rows, then along the columns; far fewer rounds than one long ring.

2 (x - 1) + 2 (y - 1) rounds for x times y ranks, and as few bytes as the ring.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Any

from collectives.algorithms import ring
from collectives.algorithms.groups import embed, evenly
from collectives.collective import ALLREDUCE
from collectives.registry import Tunable, algorithm
from collectives.step import Round


def row_length(size: int, width: int) -> int:
    """Return the greatest divisor of ``size`` up to ``width``, or up to its root for 0."""
    most = min(width, size) or isqrt(size)
    return next(x for x in range(most, 0, -1) if size % x == 0)


WIDTH = Tunable(
    0,
    lambda size: [x for x in range(1, size + 1) if size % x == 0],
    "ranks in a row: this or the next divisor below; 0: about a square",
    least=0,
)


@algorithm(
    ALLREDUCE,
    blocks=lambda size, width=0: size,
    paper="Mikami et al. 2018",
    tunables={"width": WIDTH},
)
def torus(rank: Any, size: int, width: int = 0) -> Iterator[Round]:
    """Reduce-scatter along rows, allreduce the parts along columns, allgather along rows."""
    x = row_length(size, width)
    y = size // x
    column, row = rank % x, rank // x
    parts = evenly(0, size, x)

    def in_row(member: Any) -> Any:
        return row * x + member

    yield from embed(ring.reduce_scatter(column, x), in_row, parts)
    part = evenly(column * y, y, y)
    yield from embed(ring.ring(row, y), lambda member: member * x + column, part)
    yield from embed(ring.allgather(column, x), in_row, parts)
