"""The adjoint of a schedule of data movement and sums, derived from the schedule itself.

Such a schedule is a linear map F of the state of all ranks. Its transpose F* runs the rounds
backwards and turns each step round: what was sent comes back and is added, what was added is sent
back, what was overwritten is sent back and cleared. So the backward pass of a halo exchange, a
broadcast or a redistribution is never written by hand, and <F x, y> = <x, F* y> tests it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from collectives.step import NULL, Generator, Recv, Reduce, Round, Send, Step, Zero


def adjoint(rounds: Iterable[Round]) -> list[Round]:
    """Return the rounds of the transposed map, for one rank or, vectorized, for all."""
    return [[t for s in steps for t in _turn(s)] for steps in reversed(list(rounds))]


def adjoint_of(generate: Generator) -> Generator:
    """Return the generator of the transposed map."""

    def transposed(rank: Any, size: int) -> Iterator[Round]:
        yield from adjoint(generate(rank, size))

    return transposed


def _turn(step: Step) -> list[Step]:
    if isinstance(step, Send):
        return [Reduce(step.peer, step.block, step.count)]
    if isinstance(step, Reduce):
        return [Send(step.peer, step.block, step.count)]
    if isinstance(step, Recv):
        # A receive from nobody stores nothing, so there is nothing to clear.
        cleared = step.count * (step.peer != NULL)
        return [Send(step.peer, step.block, step.count), Zero(step.block, cleared)]
    return [step]
