"""Pair the sends of a round with its receives, for all ranks at once.

Steps of one round between the same two ranks, in the same direction, are one message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from collectives.sides import ALL, Parts, Side, Vector, made_side, side_of
from collectives.step import NULL, Recv, Reduce, Send
from collectives.verify import ScheduleError

Move: TypeAlias = "Send | Recv | Reduce"


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Who talks to whom in a round. Many algorithms have the same round after round.

    A generator does not change an array after it has yielded it, so the same array means the same
    peers.

    Attributes:
        moves: the steps that it was made of.
        out: the messages that are sent, those to oneself left out.
        into: the messages that are taken, those from oneself among them.
        index: for each of those taken, its number among those sent; for one from oneself, the
            rank counted on from the last of these.
        active: index of the ranks that take part in the round.
    """

    moves: list[Move]
    out: Side
    into: Side
    index: Vector
    active: Any

    def fits(self, moves: list[Move]) -> bool:
        """Return whether these steps have the same kinds and the very same arrays of peers."""
        return len(moves) == len(self.moves) and all(
            type(a) is type(b) and a.peer is b.peer for a, b in zip(moves, self.moves, strict=True)
        )


def pattern_of(
    k: int, size: int, moves: list[Move], lengths: Sequence[Any], node: Vector | None = None
) -> Pattern:
    """Return who talks to whom.

    Args:
        k: the number of the round, for the message of an error.
        size: number of ranks.
        moves: the steps of the round that move data, over all ranks.
        lengths: their lengths in bytes, each a number or an array over the ranks.
        node: of each rank, int64 (size,); None where all are on one.

    Raises:
        ScheduleError: a message has no partner, or there is no such rank; the message names rank
            and round.
    """
    # Where there is no data to move no message is sent, as in a run.
    peers = [
        np.where(np.equal(length, 0), NULL, np.broadcast_to(s.peer, (size,)))
        for s, length in zip(moves, lengths, strict=True)
    ]
    for p in peers:
        if p.min() < NULL or p.max() >= size:
            who = int(np.argmax((p < NULL) | (p >= size)))
            raise ScheduleError(f"rank {who}, round {k}: there is no such peer: {p[who]}")
    sends = [i for i, s in enumerate(moves) if isinstance(s, Send)]
    receives = [i for i, s in enumerate(moves) if not isinstance(s, Send)]
    sent = Parts.of(sends, [peers[i] for i in sends])
    taken = Parts.of(receives, [peers[i] for i in receives])
    reduces: Any = np.array([isinstance(s, Reduce) for s in moves], bool)[taken.step]
    reduces = bool(reduces.all()) if reduces.all() or not reduces.any() else reduces
    if len(sends) == len(receives):
        quick = _one_each if len(sends) == 1 else _all_in_order
        simple = quick(moves, sent, taken, size, node, reduces)
        if simple is not None:
            return simple
    sent_key = sent.owner * size + sent.peer
    taken_key = taken.peer * size + taken.owner
    if not np.array_equal(np.sort(sent_key), np.sort(taken_key)):
        _complain(k, size, sent_key, taken_key)
    remote = np.flatnonzero(sent.owner != sent.peer)
    out = side_of(sent.take(remote), sent_key[remote], size, node, False)
    into = side_of(taken, taken_key, size, node, reduces)
    active = np.union1d(sent.owner, taken.owner)
    return Pattern(
        moves, out, into, _index(out, into, size), ALL if active.size == size else active
    )


def _one_each(
    moves: list[Move],
    sent: Parts,
    taken: Parts,
    size: int,
    node: Vector | None,
    reduces: Any,
) -> Pattern | None:
    """Return the pattern of a round of one send and one receive: the common case, and quick.

    None where a message has no partner, or is to oneself.
    """
    number = np.full(size, -1)
    number[sent.owner] = np.arange(sent.owner.size)
    index = number[taken.peer]
    if index.size != sent.owner.size or (index.size and index.min() < 0):
        return None
    if not np.array_equal(sent.peer[index], taken.owner) or (sent.owner == sent.peer).any():
        return None
    counts = [index.size] if index.size else []
    out = made_side(sent, sent.owner, sent.peer, counts, None, size, node, False)
    into = made_side(taken, taken.owner, taken.peer, counts, None, size, node, reduces)
    full = index.size == size
    active = ALL if full else np.union1d(sent.owner, taken.owner)
    return Pattern(moves, out, into, index, active)


def _all_in_order(
    moves: list[Move],
    sent: Parts,
    taken: Parts,
    size: int,
    node: Vector | None,
    reduces: Any,
) -> Pattern | None:
    """Return the pattern of a round in which all ranks do all steps: quick, as nothing is sorted.

    None where a step does not meet that of the same place among those of the other kind, or two
    steps are one message, or a message is to oneself.
    """
    total = sent.owner.size
    if total == 0 or total % size or total != taken.owner.size:
        return None
    rank = np.arange(size)
    to, source = sent.peer.reshape(-1, size), taken.peer.reshape(-1, size)
    steps = len(to)
    if any((p.owner != np.tile(rank, steps)).any() for p in (sent, taken)):
        return None
    if not (np.take_along_axis(to, source, axis=1) == rank).all() or (to == rank).any():
        return None
    if not np.diff(np.sort(to, axis=0), axis=0).all():
        return None
    counts, member = [size] * steps, np.arange(total)
    out = made_side(sent, sent.owner, sent.peer, counts, member, size, node, False)
    into = made_side(taken, taken.owner, taken.peer, counts, member, size, node, reduces)
    index = (source + size * np.arange(steps)[:, None]).ravel()
    return Pattern(moves, out, into, index, ALL)


def _index(out: Side, into: Side, size: int) -> Vector:
    """Return the number of the sent message for each one taken; the keys are those of pairs."""
    source = out.rank * size + _peers(out)
    target = _peers(into) * size + into.rank
    order = np.argsort(source)
    if order.size == 0:
        return into.rank.copy()
    place = np.searchsorted(source, target, sorter=order)
    index = order[np.minimum(place, order.size - 1)]
    return np.where(into.local, order.size + into.rank, index)


def _peers(side: Side) -> Vector:
    peers = np.empty(side.rank.size, np.int64)
    member = np.arange(side.rank.size) if side.member is None else side.member
    peers[member] = side.parts.peer
    return peers


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
