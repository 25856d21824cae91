"""Which rows of a split image each rank needs from which other rank, and the schedule for it.

All is computed from global ranges of rows, so that blocks of any height, kernels wider than a
block, strides and uneven paddings need no case of their own. Nothing here imports MPI.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.step import NULL, Generator, Recv, Round, Send, rounds_of
from hpcdl.layout import Span


@dataclass(frozen=True, slots=True)
class Reach:
    """What a range of outputs of a sliding window sees of the inputs.

    Attributes:
        rows: the inputs.
        before: positions of padding in front of them.
        after: positions of padding behind them.
    """

    rows: Span
    before: int
    after: int


def reach(outputs: Span, length: int, kernel: int, stride: int, padding: int) -> Reach:
    """Return what the window sees: output o sees inputs o * stride - padding + (0 .. kernel - 1).

    Args:
        outputs: a range of outputs; may be empty.
        length: the number of inputs, without padding.
        kernel: size of the window.
        stride: of the window.
        padding: in front of the first input.

    Returns:
        The inputs, cut to those that exist, and how much was cut off on each side.
    """
    first, last = outputs
    if first >= last:
        return Reach((0, 0), 0, 0)
    start = first * stride - padding
    stop = (last - 1) * stride - padding + kernel
    return Reach(
        rows=(_clip(start, length), _clip(stop, length)),
        before=_clip(-start, stop - start),
        after=_clip(stop - length, stop - start),
    )


def halo_schedule(owned: Sequence[Span], needed: Sequence[Span]) -> Generator:
    """The exchange that brings every rank the rows that it needs and does not own.

    One round: each pair of ranks is at most one message, whatever its distance. Blocks are
    numbered as in an alltoall: block j of a rank is what it owns and rank j needs; block size + i
    is what it gets from rank i.

    Args:
        owned: the rows that each rank has; they do not overlap.
        needed: the rows that each rank shall have.

    Returns:
        A generator of rounds, over an int or an array of ranks (see `collectives.step`).
    """
    have, want = np.array(owned).reshape(-1, 2), np.array(needed).reshape(-1, 2)

    def meets(source: Any, target: Any) -> Any:
        stop = np.minimum(have[source, 1], want[target, 1])
        return stop > np.maximum(have[source, 0], want[target, 0])

    def generate(rank: Any, size: int) -> Iterator[Round]:
        steps: Round = []
        for k in range(1, size):
            to, source = (rank + k) % size, (rank - k) % size
            steps.append(Send(np.where(meets(rank, to), to, NULL), to))
            steps.append(Recv(np.where(meets(source, rank), source, NULL), size + source))
        yield steps

    return generate


@dataclass(frozen=True)
class Movement:
    """A movement of rows as one rank sees it: from the rows that it owns to those that it needs.

    Rows are counted from the first of the owned and from the first of the needed ones.

    Attributes:
        rounds: the schedule of this rank.
        blocks: the number of rows of each block of the schedule.
        inputs: (block, owned rows) that are copied into blocks before the schedule runs.
        outputs: (block, needed rows) that are copied out of blocks when it has run.
        keep: (owned rows, needed rows) that the rank has itself.
        owned: how many rows the rank owns.
        needed: how many rows the rank needs.
        moves: whether any rank at all has a message to send.
    """

    rounds: Sequence[Round]
    blocks: Sequence[int]
    inputs: Sequence[tuple[int, Span]]
    outputs: Sequence[tuple[int, Span]]
    keep: tuple[Span, Span]
    owned: int
    needed: int
    moves: bool


def halo(rank: int, owned: Sequence[Span], needed: Sequence[Span]) -> Movement:
    """The movement of `halo_schedule`.

    Args:
        rank: whose part of the movement.
        owned: the rows that each rank has; they do not overlap, and all of them together are all
            the rows that there are.
        needed: the rows that each rank shall have.
    """
    size = len(owned)
    mine, want = owned[rank], needed[rank]
    goes = [common(mine, needed[peer]) for peer in range(size)]
    comes = [common(owned[peer], want) for peer in range(size)]
    others = [peer for peer in range(size) if peer != rank]
    return Movement(
        rounds=rounds_of(halo_schedule(owned, needed), rank, size),
        blocks=[stop - start for start, stop in goes + comes],
        inputs=[(peer, _from(mine, goes[peer])) for peer in others if _rows(goes[peer])],
        outputs=[(size + peer, _from(want, comes[peer])) for peer in others if _rows(comes[peer])],
        keep=(_from(mine, goes[rank]), _from(want, goes[rank])),
        owned=_rows(mine),
        needed=_rows(want),
        moves=any(
            _rows(common(owned[i], needed[j])) for i in range(size) for j in range(size) if i != j
        ),
    )


def gather(rank: int, owned: Sequence[Span], generate: Generator) -> Movement:
    """The movement that brings every rank all rows, by the schedule of any allgather.

    Args:
        rank: whose part of the movement.
        owned: the rows that each rank has, in order.
        generate: an allgather with one block for each rank.
    """
    size, mine = len(owned), owned[rank]
    there = (0, _rows(mine))
    return Movement(
        rounds=rounds_of(generate, rank, size),
        blocks=[_rows(span) for span in owned],
        inputs=[(rank, there)],
        outputs=[(peer, owned[peer]) for peer in range(size) if peer != rank],
        keep=(there, mine),
        owned=_rows(mine),
        needed=owned[-1][1],
        moves=size > 1,
    )


def common(a: Span, b: Span) -> Span:
    """The positions that two ranges share; an empty range where there are none."""
    start = max(a[0], b[0])
    return start, max(start, min(a[1], b[1]))


def _clip(value: int, most: int) -> int:
    return min(max(value, 0), most)


def _rows(span: Span) -> int:
    return span[1] - span[0]


def _from(origin: Span, span: Span) -> Span:
    """`span`, counted from the start of `origin`; where it is empty, an empty range in there."""
    return (span[0] - origin[0], span[1] - origin[0]) if _rows(span) else (0, 0)
