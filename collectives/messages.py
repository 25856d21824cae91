"""The messages of a schedule: each send paired with its receive."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero, rounds_of
from collectives.verify import check_matching


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or a copy within a rank where source and target are the same.

    Attributes:
        round: in which round, from 0.
        source: the rank that sends it.
        target: the rank that takes it.
        block: the first block, as the sender numbers it.
        count: how many blocks.
        into: the first block, as the receiver numbers it.
        reduced: it is accumulated (Reduce), not stored (Recv).
    """

    round: int
    source: int
    target: int
    block: int
    count: int
    into: int
    reduced: bool


def messages_of(algorithm: Algorithm, size: int) -> tuple[int, list[Message]]:
    """Return the number of rounds, and all messages in order of rounds and of sending ranks.

    Raises:
        ScheduleError: a send or a receive has no partner.
    """
    ranks = [rounds_of(algorithm.generate, rank, size) for rank in range(size)]
    rounds = max(len(r) for r in ranks)
    found: list[Message] = []
    for k in range(rounds):
        steps = [r[k] if k < len(r) else [] for r in ranks]
        check_matching(steps, k, same_blocks=algorithm.collective.one_space)
        found += _pairs(k, steps)
    return rounds, found


def _pairs(k: int, steps: Sequence[Round]) -> list[Message]:
    takers: defaultdict[tuple[int, int], deque[tuple[int, bool]]] = defaultdict(deque)
    for rank, mine in enumerate(steps):
        for s in mine:
            if not isinstance(s, Send | Zero):
                takers[int(s.peer), rank].append((int(s.block), isinstance(s, Reduce)))
    pairs = []
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Send):
                into, reduced = takers[rank, int(s.peer)].popleft()
                pairs.append(
                    Message(k, rank, int(s.peer), int(s.block), int(s.count), into, reduced)
                )
    return pairs
