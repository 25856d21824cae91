"""Pair the sends of a round with its receives, for all ranks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.step import NULL, Recv, Reduce, Send
from collectives.verify import ScheduleError

Vector: TypeAlias = npt.NDArray[Any]
Move: TypeAlias = "Send | Recv | Reduce"


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Who talks to whom in a round. Many algorithms have the same round after round.

    A generator does not change an array after it has yielded it, so the same array means the same
    peers.

    Attributes:
        moves: the steps that it was made of.
        active: for each step, which ranks take part: a mask, or True for all.
        remote: for each step, which ranks use the network.
        receives: the number of each receive step, and for each rank the position of its message
            among all sends.
    """

    moves: list[Move]
    active: list[Any]
    remote: list[Any]
    receives: list[tuple[int, Vector]]

    def fits(self, moves: list[Move]) -> bool:
        """Return whether these steps have the same kinds and the very same arrays of peers."""
        return len(moves) == len(self.moves) and all(
            type(a) is type(b) and a.peer is b.peer for a, b in zip(moves, self.moves, strict=True)
        )


def pattern_of(k: int, rank: Vector, moves: list[Move], lengths: list[Any]) -> Pattern:
    """Return who talks to whom.

    Args:
        k: the number of the round, for the message of an error.
        rank: all ranks, int64 (size,).
        moves: the steps of the round that move data, over all ranks.
        lengths: their lengths in bytes, each a number or an array over the ranks.

    Raises:
        ScheduleError: a message has no partner, or there is no such rank; the message names rank
            and round.
    """
    # Where there is no data to move no message is sent, as in a run.
    peers = [
        np.where(np.equal(length, 0), NULL, np.broadcast_to(s.peer, rank.shape))
        for s, length in zip(moves, lengths, strict=True)
    ]
    for p in peers:
        if p.min() < NULL or p.max() >= rank.size:
            who = int(np.argmax((p < NULL) | (p >= rank.size)))
            raise ScheduleError(f"rank {who}, round {k}: there is no such peer: {p[who]}")
    sends = [i for i, s in enumerate(moves) if isinstance(s, Send)]
    receives = [i for i, s in enumerate(moves) if not isinstance(s, Send)]
    index = _match(k, rank, [peers[i] for i in sends], [peers[i] for i in receives])
    return Pattern(
        moves,
        [_mask(p != NULL) for p in peers],
        [_mask((p != NULL) & (p != rank)) for p in peers],
        list(zip(receives, index, strict=True)),
    )


def _mask(mask: Vector) -> Any:
    """Return a mask, or True where it is true for all: the common case, and the faster one."""
    return True if mask.all() else mask


def _match(
    k: int, rank: Vector, targets: Sequence[Vector], sources: Sequence[Vector]
) -> list[Vector]:
    """Return, for each receive step, the position of each rank's message among all sends.

    Args:
        k: the number of the round.
        rank: all ranks.
        targets: for each send step, to whom each rank sends.
        sources: for each receive step, from whom each rank receives.

    Raises:
        ScheduleError: a message has no partner.
    """
    if len(targets) == len(sources) == 1:
        (to,), (frm,) = targets, sources
        there = to[frm] == rank
        # If all receive, and from whom sends to them, then no message is left over.
        if there.all() and frm.min() != NULL:
            return [frm]
        there |= frm == NULL
        if there.all() and np.count_nonzero(to != NULL) == np.count_nonzero(frm != NULL):
            return [frm]
    # Several messages between two ranks are matched in order: sort both sides, keeping the order.
    size = rank.size
    none = np.empty(0, np.int64)
    to, frm = np.concatenate([none, *targets]), np.concatenate([none, *sources])
    out, into = np.flatnonzero(to != NULL), np.flatnonzero(frm != NULL)
    sent = (out % size) * size + to[out]
    wanted = frm[into] * size + into % size
    by_sent, by_wanted = np.argsort(sent, kind="stable"), np.argsort(wanted, kind="stable")
    if not np.array_equal(sent[by_sent], wanted[by_wanted]):
        _complain(k, size, sent, wanted)
    position = np.zeros(frm.size, np.int64)
    position[into[by_wanted]] = out[by_sent]
    return np.split(position, len(sources)) if sources else []


def _complain(k: int, size: int, sent: Vector, wanted: Vector) -> None:
    pairs, counts = np.unique(np.concatenate([sent, wanted]), return_inverse=True)
    balance = np.bincount(counts, np.repeat([1.0, -1.0], [sent.size, wanted.size]))
    first = int(np.flatnonzero(balance)[0])
    source, target = divmod(int(pairs[first]), size)
    if balance[first] > 0:
        raise ScheduleError(
            f"rank {source}, round {k}: sends to rank {target}, which does not receive it"
        )
    raise ScheduleError(
        f"rank {target}, round {k}: waits for rank {source}, which does not send to it"
    )
