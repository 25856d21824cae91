"""The messages of a schedule: the sends of a round, paired with their receives."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero, rounds_of
from collectives.verify import check_matching


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive blocks of a message.

    Attributes:
        block: the first block, as the sender numbers it.
        count: how many blocks.
        into: the first block, as the receiver numbers it.
        reduced: they are accumulated (Reduce), not stored (Recv).
    """

    block: int
    count: int
    into: int
    reduced: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or what a rank copies within its own blocks: source and target are the same.

    Attributes:
        round: in which round, from 0.
        source: the rank that sends it.
        target: the rank that takes it.
        pieces: what it carries, in order.
    """

    round: int
    source: int
    target: int
    pieces: tuple[Piece, ...]

    @property
    def count(self) -> int:
        """The number of blocks."""
        return sum(piece.count for piece in self.pieces)

    @property
    def reduced(self) -> bool:
        """Whether any of it is accumulated."""
        return any(piece.reduced for piece in self.pieces)


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
    pieces: defaultdict[tuple[int, int], list[Piece]] = defaultdict(list)
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Send):
                ends = rank, int(s.peer)
                into, reduced = takers[ends].popleft()
                pieces[ends].append(Piece(int(s.block), int(s.count), into, reduced))
    return [Message(k, *ends, tuple(found)) for ends, found in pieces.items()]


@dataclass(frozen=True, slots=True)
class Sent:
    """What the ranks send in one run of an algorithm; what stays on a rank is left out.

    Attributes:
        rounds: the number of rounds.
        messages: of each rank.
        volume: of each rank: the bytes that it sends over those of a rank's buffer, as
            `collectives.extent.Extent` counts them, where all blocks are equally long.
    """

    rounds: int
    messages: tuple[int, ...]
    volume: tuple[Fraction, ...]


def sent_by(algorithm: Algorithm, size: int) -> Sent:
    """Count what each rank sends.

    Raises:
        ScheduleError: a send or a receive has no partner.
    """
    rounds, messages = messages_of(algorithm, size)
    count, blocks = [0] * size, [0] * size
    for m in messages:
        if m.source != m.target:
            count[m.source] += 1
            blocks[m.source] += m.count
    parts = algorithm.blocks(size) if algorithm.collective.one_space else size
    return Sent(rounds, tuple(count), tuple(Fraction(b, parts) for b in blocks))
