"""Linear algorithms: the root talks to every rank itself. The baseline of all others.

A reduction adds whole vectors in the order of ranks, so it is right for operations that do not
commute, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from collectives.algorithms.batches import FEW, MANY, batches, window
from collectives.collective import BCAST, GATHER, REDUCE, SCATTER
from collectives.registry import algorithm
from collectives.step import NULL, Index, Recv, Reduce, Round, Send

PAPER = "Pjesivac-Grbovic et al. 2007"
Span = Callable[[Index], "tuple[Index, int]"]


def _from_root(rank: Any, size: int, window: int, span: Span) -> Iterator[Round]:
    for peers in batches(size, window):
        root = np.where((rank >= peers.start) & (rank < peers.stop), 0, NULL)
        sends = [Send(np.where(rank == 0, r, NULL), *span(r)) for r in peers]
        yield [*sends, Recv(root, *span(rank))]


def _to_root(rank: Any, size: int, window: int, span: Span, kind: Any) -> Iterator[Round]:
    for peers in batches(size, window):
        root = np.where((rank >= peers.start) & (rank < peers.stop), 0, NULL)
        takes = [kind(np.where(rank == 0, r, NULL), *span(r)) for r in peers]
        yield [Send(root, *span(rank)), *takes]


@algorithm(BCAST, blocks=lambda size, **_: 1, name="linear", paper=PAPER, tunables=window(MANY))
def bcast(rank: Any, size: int, window: int = MANY, blocks: int = 1) -> Iterator[Round]:
    """Send everything to one rank after the other."""
    return _from_root(rank, size, window, lambda r: (0, blocks))


@algorithm(REDUCE, blocks=lambda size, **_: 1, name="linear", paper=PAPER, tunables=window(FEW))
def reduce(rank: Any, size: int, window: int = FEW, blocks: int = 1) -> Iterator[Round]:
    """Add the vector of one rank after the other, in the order of ranks."""
    return _to_root(rank, size, window, lambda r: (0, blocks), Reduce)


@algorithm(
    SCATTER, blocks=lambda size, **_: size, name="linear", paper=PAPER, tunables=window(MANY)
)
def scatter(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Send its part to each rank."""
    return _from_root(rank, size, window, lambda r: (r, 1))


@algorithm(GATHER, blocks=lambda size, **_: size, name="linear", paper=PAPER, tunables=window(MANY))
def gather(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Take its part from each rank."""
    return _to_root(rank, size, window, lambda r: (r, 1), Recv)
