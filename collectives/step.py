"""What a schedule is made of: rounds of steps.

A collective algorithm is a generator of rounds; a round is a list of steps of one rank. It is
written over ``rank``, which is an int (to run it) or an array of all ranks (to simulate it).

The contract of a round:

1. every ``Send`` reads the state as it is at the start of the round;
2. then every ``Zero`` clears its blocks;
3. then what arrives is stored (``Recv``) or accumulated (``Reduce``), in the order of the list.

A send and its receive stand in the same round of both ranks. All steps of a round that move data
from one rank to another travel as one message, in the order of the list; both ranks list them in
the same order, with the same counts. So there is at most one message for each ordered pair of ranks
and round, all messages of a round may be in flight at once, and no round can deadlock. Inside one
round a rank may not store into a block that it also sends, stores or reduces into:
`collectives.verify` refuses that. It may reduce into a block that it sends.

A step whose peer is `NULL` does nothing: so one formula serves ranks that sit out a round.

A schedule says who and when. `collectives.blocks` says where: it maps block numbers to memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

NULL = -1
"""The peer of a step that does nothing."""

Index: TypeAlias = "int | npt.NDArray[Any]"
"""A rank or a block number: one int, or an array with one entry for each rank."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send blocks ``block .. block + count - 1`` to ``peer``."""

    peer: Index
    block: Index
    count: Index = 1


@dataclass(frozen=True, slots=True)
class Recv:
    """Store what ``peer`` sends in blocks ``block .. block + count - 1``."""

    peer: Index
    block: Index
    count: Index = 1


@dataclass(frozen=True, slots=True)
class Reduce:
    """Accumulate what ``peer`` sends into blocks ``block .. block + count - 1``."""

    peer: Index
    block: Index
    count: Index = 1


@dataclass(frozen=True, slots=True)
class Zero:
    """Set blocks ``block .. block + count - 1`` to zero. Only adjoints need it."""

    block: Index
    count: Index = 1


Step: TypeAlias = Send | Recv | Reduce | Zero
Round: TypeAlias = "list[Step]"
Generator: TypeAlias = Callable[[Any, int], Iterator[Round]]
"""An algorithm: ``generate(rank, size)`` yields the rounds of that rank (or of all ranks)."""


def scalar(step: Step) -> Step | None:
    """Return the step with plain ints, or None where its peer is `NULL` or it moves no block.

    Raises:
        TypeError: the step holds what is not a whole number, or an array of more than one rank.
    """
    count = operator.index(step.count)  # takes arrays without a dimension
    if count == 0:
        return None
    block = operator.index(step.block)
    if isinstance(step, Zero):
        return Zero(block, count)
    peer = operator.index(step.peer)
    return None if peer == NULL else type(step)(peer, block, count)


def rounds_of(generate: Generator, rank: int, size: int) -> list[Round]:
    """Return all rounds of one rank, with plain ints and without the steps that do nothing."""
    return compact(generate(rank, size))


def compact(rounds: Iterable[Round]) -> list[Round]:
    """Return the rounds with plain ints and without the steps that do nothing."""
    return [[s for s in map(scalar, steps) if s is not None] for steps in rounds]


def rotated(generate: Generator, root: int) -> Generator:
    """Return a rooted algorithm, written for root 0, for another root: ranks are renumbered."""

    def renumbered(rank: Any, size: int) -> Iterator[Round]:
        for steps in generate((rank - root) % size, size):
            yield [
                step
                if isinstance(step, Zero)
                else type(step)(_shift(step.peer, root, size), step.block, step.count)
                for step in steps
            ]

    return generate if root == 0 else renumbered


def _shift(peer: Index, root: int, size: int) -> Index:
    return np.where(np.asarray(peer) == NULL, NULL, (np.asarray(peer) + root) % size)
