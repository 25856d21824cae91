"""Pairwise exchange: in round k every rank sends to the one k above and hears from k below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.collective import ALLTOALL, REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send

PAPER = "Thakur, Rabenseifner & Gropp 2005"


@algorithm(ALLTOALL, blocks=lambda size: 2 * size, paper=PAPER)
def pairwise(rank: Any, size: int) -> Iterator[Round]:
    """Send each block straight to its rank; round 0 is the block that a rank keeps."""
    for k in range(size):
        to, frm = (rank + k) % size, (rank - k) % size
        yield [Send(to, to), Recv(frm, size + frm)]


@algorithm(REDUCE_SCATTER, blocks=lambda size: size, name="pairwise", paper=PAPER)
def reduce_scatter(rank: Any, size: int) -> Iterator[Round]:
    """Send each block straight to its rank, and add what comes for one's own."""
    for k in range(1, size):
        to, frm = (rank + k) % size, (rank - k) % size
        yield [Send(to, to), Reduce(frm, rank)]
