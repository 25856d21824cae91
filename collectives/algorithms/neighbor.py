"""Neighbourhood exchange: one round, from a rank's sources and to its destinations.

Not in the registry, as it needs a topology: the k-th message that a rank sends to another one meets
the k-th that this one takes from it. So a rank may be a neighbour several times, and its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from collectives.step import NULL, Recv, Round, Send


def neighbor_alltoall(
    sources: Sequence[int], destinations: Sequence[int], *, cartesian: bool = False
) -> list[Round]:
    """Return the rounds of a rank with a block for each destination and one from each source.

    Blocks 0, 1, ... go to the destinations; those behind them, in order, come from the sources.

    Args:
        sources: ranks; one below 0 stands for nobody.
        destinations: ranks; one below 0 stands for nobody.
        cartesian: both are the ranks below and above in each dimension of a grid, in turns. What
            goes down then comes from above, also where both are the same rank, as in a periodic
            dimension of 1 or 2 ranks (MPI 4.1, section 8.6).

    Raises:
        ValueError: ``cartesian``, and there are not two neighbours for each dimension.
    """
    sends = [Send(max(rank, NULL), block) for block, rank in enumerate(destinations)]
    return [[*sends, *_receives(sources, len(destinations), cartesian)]]


def neighbor_allgather(
    sources: Sequence[int], destinations: Sequence[int], *, cartesian: bool = False
) -> list[Round]:
    """Return the rounds of a rank that sends one block to all and gets one of each source.

    Block 0 goes to the destinations; blocks 1, 2, ... come from the sources. Args and errors as for
    `neighbor_alltoall`.
    """
    sends = [Send(max(rank, NULL), 0) for rank in destinations]
    return [[*sends, *_receives(sources, 1, cartesian)]]


def _receives(sources: Sequence[int], first: int, cartesian: bool) -> list[Recv]:
    if cartesian and len(sources) % 2:
        raise ValueError(f"sources: are {len(sources)} ranks; a grid has two for each dimension")
    order = [i ^ 1 if cartesian else i for i in range(len(sources))]
    return [Recv(max(sources[i], NULL), first + i) for i in order]
