"""Direct: every rank talks to every rank itself, in one step; few rounds of many small messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.batches import MANY, batches, window
from collectives.collective import ALLGATHER, ALLREDUCE, ALLTOALL, REDUCE_SCATTER
from collectives.registry import algorithm
from collectives.step import Recv, Reduce, Round, Send, Step

PAPER = "Cowan et al. 2023"


@algorithm(
    REDUCE_SCATTER, blocks=lambda size, **_: size, name="direct", paper=PAPER, tunables=window(MANY)
)
def reduce_scatter(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Send block j to rank j, and add what comes for one's own block."""
    for ks in batches(size, window):
        sends = [Send((rank + k) % size, (rank + k) % size) for k in ks]
        yield [*sends, *(Reduce((rank - k) % size, rank) for k in ks)]


@algorithm(
    ALLGATHER, blocks=lambda size, **_: size, name="direct", paper=PAPER, tunables=window(MANY)
)
def allgather(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Send one's own block to all others."""
    for ks in batches(size, window):
        sends = [Send((rank + k) % size, rank) for k in ks]
        yield [*sends, *(Recv((rank - k) % size, (rank - k) % size) for k in ks)]


@algorithm(
    ALLREDUCE, blocks=lambda size, **_: size, name="direct", paper=PAPER, tunables=window(MANY)
)
def allreduce(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Let rank j add block j of all ranks, and send the sum to all."""
    yield from reduce_scatter(rank, size, window)
    yield from allgather(rank, size, window)


@algorithm(
    ALLTOALL,
    blocks=lambda size, **_: 2 * size,
    name="direct",
    paper="Thakur, Rabenseifner & Gropp 2005",
    tunables=window(MANY),
)
def alltoall(rank: Any, size: int, window: int = MANY) -> Iterator[Round]:
    """Send all blocks at once, each straight to its rank; the first round has what a rank keeps."""
    own: list[Step] = [Send(rank, rank), Recv(rank, size + rank)]
    if size == 1:
        yield own
    for ks in batches(size, window):
        sends = [Send((rank + k) % size, (rank + k) % size) for k in ks]
        takes = [Recv((rank - k) % size, size + (rank - k) % size) for k in ks]
        yield [*own, *sends, *takes]
        own = []
