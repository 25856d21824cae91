"""Lay the rounds of a schedule out in memory: what is copied, sent, received and reduced, where.

Steps of a round between the same two ranks in the same direction become one message. Blocks that
MPI cannot read or write in place are given scratch memory, which all rounds share.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from collectives.blocks import Blocks
from collectives.device import mpi_is_cuda_aware, mpi_says_cuda_aware
from collectives.memory import namespace, on_device
from collectives.step import Reduce, Round, Send, Zero, compact

MESSAGE_BYTES = 1 << 30
"""Longer messages are cut: counts above 2^31 need MPI 4, and 1 GiB is long enough to stream."""

STAGED_BYTES = 1 << 22
"""The same between device memory and an MPI that cannot read it (see `collectives.staging`): long
enough for the bandwidth of a bus, short enough that the copy of one part overlaps another."""

_ALIGN = 64


@dataclass(slots=True)
class Arrival:
    """Data that arrive in scratch memory, and what becomes of them.

    Attributes:
        view: the blocks.
        buffer: what arrived, of the same shape and dtype.
        reduce: accumulate it; else store it.
        lower: it comes from a lower rank.
    """

    view: Any
    buffer: Any
    reduce: bool
    lower: bool


@dataclass(slots=True)
class Message:
    """What goes to, or comes from, another rank in a round.

    Attributes:
        send: it goes.
        peer: the other rank.
        parts: each part is sent as one; it is a list of contiguous arrays of bytes, in order.
        nbytes: of all parts.
        staged: they lie in device memory, which MPI cannot read.
    """

    send: bool
    peer: int
    parts: list[list[Any]]
    nbytes: int
    staged: bool = False


@dataclass(slots=True)
class Stage:
    """One round, laid out.

    Attributes:
        copies: (source, target) to copy before the messages go.
        zeros: blocks to clear, after that.
        messages: what is sent and received.
        arrivals: what to do when all have come.
        device: an array in device memory that MPI reads by itself, or None.
    """

    copies: list[tuple[Any, Any]] = field(default_factory=list)
    zeros: list[Any] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    device: Any = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.messages or self.zeros or self.arrivals)


@dataclass(slots=True)
class _Piece:
    view: Any
    reduce: bool
    scratch: str  # "" where MPI works on the blocks themselves, else "host" or "device"
    offset: int = 0

    @property
    def nbytes(self) -> int:
        return int(self.view.size) * int(self.view.dtype.itemsize)


@dataclass(slots=True)
class _Group:
    """The pieces of one message."""

    send: bool
    peer: int
    pieces: list[_Piece] = field(default_factory=list)


def lay_out(
    rounds: Iterable[Round], blocks: Blocks, own: int, message_bytes: int = MESSAGE_BYTES
) -> tuple[list[Stage], list[Any]]:
    """Lay out the rounds of rank ``own``; return them, and the scratch memory.

    Args:
        rounds: of this rank.
        blocks: where they lie. Blocks without an element are left out.
        own: this rank.
        message_bytes: longer messages are cut in parts.

    Raises:
        ValueError: there is no such block, or ``message_bytes`` is below 1.
    """
    if message_bytes < 1:
        raise ValueError(f"message_bytes={message_bytes}: needs at least 1")
    plain = compact(rounds)
    grouped = [_groups(steps, blocks, own) for steps in plain]
    way = _way(grouped, message_bytes)
    if way.direct:
        for groups in grouped:
            _in_one_piece(groups, own)
    scratch = _Scratch(grouped)
    stages = []
    for steps, groups in zip(plain, grouped, strict=True):
        stage = _stage(groups, own, scratch, way)
        for s in steps:
            if isinstance(s, Zero):
                stage.zeros += [v for v in blocks.views(int(s.block), int(s.count)) if v.size]
        if not stage.idle:
            stages.append(stage)
    return stages, list(scratch.areas.values())


def _groups(steps: Round, blocks: Blocks, own: int) -> list[_Group]:
    groups: dict[tuple[bool, int], _Group] = {}
    for step in steps:
        if isinstance(step, Zero):
            continue
        send, peer = isinstance(step, Send), int(step.peer)
        views = [v for v in blocks.views(int(step.block), int(step.count)) if v.size]
        if not views:
            continue
        group = groups.setdefault((send, peer), _Group(send, peer))
        reduce = isinstance(step, Reduce)
        group.pieces += [_Piece(v, reduce, _where(v, send, reduce, peer == own)) for v in views]
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Way:
    """How messages travel.

    Attributes:
        direct: MPI reads device memory by itself.
        host_bytes: of a part of a message between hosts.
        device_bytes: between devices. The same on all ranks, whatever a trial on one of them said.
    """

    direct: bool
    host_bytes: int
    device_bytes: int


def _way(grouped: Sequence[Sequence[_Group]], message_bytes: int) -> _Way:
    if not any(on_device(p.view) for groups in grouped for g in groups for p in g.pieces):
        return _Way(False, message_bytes, message_bytes)
    whole = mpi_says_cuda_aware()
    device_bytes = message_bytes if whole else min(message_bytes, STAGED_BYTES)
    return _Way(whole and mpi_is_cuda_aware(), message_bytes, device_bytes)


def _in_one_piece(groups: Sequence[_Group], own: int) -> None:
    """Give scratch memory to the messages that MPI would have to gather from device memory."""
    for group in groups:
        if len(group.pieces) > 1 and group.peer != own:
            for p in group.pieces:
                if on_device(p.view):
                    p.scratch = "device"


def _where(view: Any, send: bool, reduce: bool, to_self: bool) -> str:
    lands = "device" if on_device(view) else "host"
    if to_self:
        return "" if send else lands
    return lands if reduce or not view.flags.c_contiguous else ""


class _Scratch:
    """The memory that all rounds share: nothing in it outlives a round.

    Pieces of one message lie one behind the other, so that they need not be gathered once more.
    """

    def __init__(self, grouped: Sequence[Sequence[_Group]]) -> None:
        self.areas: dict[str, Any] = {}
        need: dict[str, int] = {}
        like: dict[str, Any] = {}
        for groups in grouped:
            used = {"host": 0, "device": 0}
            for group in groups:
                for kind in used:
                    used[kind] = -(-used[kind] // _ALIGN) * _ALIGN
                for p in group.pieces:
                    if p.scratch:
                        p.offset = used[p.scratch]
                        used[p.scratch] += p.nbytes
                        need[p.scratch] = max(need.get(p.scratch, 0), used[p.scratch])
                        like.setdefault(p.scratch, p.view)
        for kind, nbytes in need.items():
            self.areas[kind] = namespace(like[kind]).empty(nbytes, np.uint8)

    def buffer(self, p: _Piece) -> Any:
        """Return the memory of a piece for the way: scratch of the same shape, or the blocks."""
        if not p.scratch:
            return p.view
        part = self.areas[p.scratch][p.offset : p.offset + p.nbytes]
        return part.view(p.view.dtype).reshape(p.view.shape)

    def data(self, pieces: Sequence[_Piece]) -> list[Any]:
        """Return the bytes of a message for the way, in as few arrays as can be."""
        first, last = pieces[0], pieces[-1]
        if first.scratch and all(p.scratch == first.scratch for p in pieces):
            return [self.areas[first.scratch][first.offset : last.offset + last.nbytes]]
        return _joined([self.buffer(p).reshape(-1).view(np.uint8) for p in pieces])


def _stage(groups: Sequence[_Group], own: int, scratch: _Scratch, way: _Way) -> Stage:
    stage = Stage()
    to_self = deque(p.view for g in groups if g.send and g.peer == own for p in g.pieces)
    for group in groups:
        buffers = [scratch.buffer(p) for p in group.pieces]
        for p, buffer in zip(group.pieces, buffers, strict=True):
            if not group.send and buffer is not p.view:
                stage.arrivals.append(Arrival(p.view, buffer, p.reduce, group.peer < own))
            if group.peer == own and not group.send:
                stage.copies.append((to_self.popleft(), buffer))
            elif group.send and buffer is not p.view:
                stage.copies.append((p.view, buffer))
        if group.peer != own:
            data = scratch.data(group.pieces)
            device = on_device(data[0])
            parts = _cut(data, way.device_bytes if device else way.host_bytes)
            nbytes = sum(d.size for d in data)
            staged = device and not way.direct
            stage.messages.append(Message(group.send, group.peer, parts, nbytes, staged))
            if device and way.direct:
                stage.device = data[0]
    return stage


def _joined(data: list[Any]) -> list[Any]:
    """Join arrays of bytes that lie one behind the other in the memory of the host."""
    joined: list[Any] = []
    for d in data:
        last = joined[-1] if joined else None
        if (
            isinstance(d, np.ndarray)
            and isinstance(last, np.ndarray)
            and last.ctypes.data + last.size == d.ctypes.data
        ):
            joined[-1] = np.lib.stride_tricks.as_strided(last, (last.size + d.size,), (1,))
        else:
            joined.append(d)
    return joined


def _cut(data: list[Any], limit: int) -> list[list[Any]]:
    """Cut a stream of bytes at every multiple of ``limit``, wherever its pieces end."""
    parts: list[list[Any]] = []
    room = 0
    for d in data:
        start = 0
        while start < d.size:
            if not room:
                parts.append([])
                room = limit
            piece = d[start : start + room]
            parts[-1].append(piece)
            start += piece.size
            room -= piece.size
    return parts
