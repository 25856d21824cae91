"""Dissemination barrier: in each round everyone signals a rank twice as far away as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.wrapped import wrapped
from collectives.collective import BARRIER
from collectives.registry import algorithm
from collectives.step import Recv, Round, Send


@algorithm(BARRIER, blocks=lambda size: size, paper="Hensgen, Finkel & Manber 1988")
def dissemination(rank: Any, size: int) -> Iterator[Round]:
    """Tell the rank ahead of whom one knows that they have come: twice as many in each round."""
    known = 1  # of oneself and of the known - 1 ranks behind
    while known < size:
        count = min(known, size - known)
        to, frm = (rank + known) % size, (rank - known) % size
        yield [
            *wrapped(Send, to, (rank - count + 1) % size, count, size),
            *wrapped(Recv, frm, (frm - count + 1) % size, count, size),
        ]
        known *= 2
