"""Run a schedule over MPI: bound once to memory and a communicator, then started many times.

This is the reference executor: persistent requests of mpi4py, and numpy or cupy for the sums. All
scratch is allocated when the plan is made, and every request is freed when it is closed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.blocks import Blocks
from collectives.channel import check_comm, open_channel
from collectives.closing import Closing
from collectives.memory import (
    from_host,
    host_empty,
    mpi_is_cuda_aware,
    namespace,
    on_device,
    synchronize,
    to_host,
)
from collectives.op import SUM, Op
from collectives.step import Reduce, Round, Send, Step, Zero, compact
from collectives.traffic import Traffic

MESSAGE_BYTES = 1 << 30
"""Longer messages are cut: counts above 2^31 need MPI 4, and 1 GiB is long enough to stream."""


class Plan(Closing):
    """A schedule bound to memory and to a communicator.

    Making one is collective over ``comm``, and must happen in the same order on all ranks; plans
    may be started, tested and waited for in any order. The first plan on a communicator duplicates
    it. `start` and `wait` run it; `test` makes progress in between.
    Use it as a context manager, or call `close`.

    Args:
        rounds: the rounds of this rank (see `collectives.step`).
        blocks: where the blocks lie. Sizes must agree on both ends of each message.
        comm: an intracommunicator.
        op: what ``Reduce`` does.
        traffic: counters to add messages, bytes and seconds to.
        message_bytes: messages longer than this are cut in pieces.

    Attributes:
        messages: messages that this rank sends in one run, those to itself left out.
        bytes_sent: their bytes.
        scratch_bytes: memory allocated by the plan.
    """

    def __init__(
        self,
        rounds: Iterable[Round],
        blocks: Blocks,
        comm: MPI.Comm,
        op: Op = SUM,
        *,
        traffic: Traffic | None = None,
        message_bytes: int = MESSAGE_BYTES,
    ) -> None:
        self.messages = 0
        self.bytes_sent = 0
        self._rounds: list[_Round] = []
        self._next = -1  # the round in flight; -1: not started
        self._traffic = traffic
        self._seconds = 0.0
        self._closed = True  # until it is whole
        check_comm(comm)
        if message_bytes < 1:
            raise ValueError(f"message_bytes={message_bytes}: needs at least 1")
        own = comm.Get_rank()
        moves = [_moves(steps, blocks, own) for steps in compact(rounds)]
        self._channel = open_channel(comm)
        self._tag = self._channel.take_tag()
        scratch = _Scratch(moves)
        self.scratch_bytes = scratch.nbytes
        for mine in moves:
            scratch.rewind()
            made = _Round(mine, op, own, self._channel.comm, self._tag, scratch, message_bytes)
            self.messages += made.messages
            self.bytes_sent += made.bytes_sent
            if not made.idle:
                self._rounds.append(made)
        self._closed = False

    def start(self) -> None:
        """Begin a run: post the messages of the first round. Does not block.

        Raises:
            RuntimeError: the plan is closed or runs already.
        """
        if self._closed:
            raise RuntimeError("start: this plan is closed")
        if self._next >= 0:
            raise RuntimeError("start: this plan runs already; wait for it first")
        begin = time.perf_counter()
        self._next = 0
        self._channel.in_flight[self._tag] = self
        if self._rounds:
            self._rounds[0].start()
        self._seconds = time.perf_counter() - begin

    def test(self) -> bool:
        """Make progress without blocking; return whether the run is finished.

        All runs in flight on the communicator go on, so that plans may be tested and waited for in
        another order on each rank.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("test")
        begin = time.perf_counter()
        for other in list(self._channel.in_flight.values()):
            if other is not self:
                other.progress()
        done = self.progress()
        self._seconds += time.perf_counter() - begin
        if done:
            self._finish()
        return done

    def wait(self) -> None:
        """Block until the run is finished; all runs in flight on the communicator go on.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("wait")
        begin = time.perf_counter()
        while self._next < len(self._rounds) and len(self._channel.in_flight) > 1:
            for other in list(self._channel.in_flight.values()):
                other.progress()
            time.sleep(0)  # where ranks share a core, a peer may need it
        while self._next < len(self._rounds):
            current = self._rounds[self._next]
            MPI.Request.Waitall(current.requests)
            self._advance(current)
        self._seconds += time.perf_counter() - begin
        self._finish()

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all rounds are done."""
        while self._next < len(self._rounds):
            current = self._rounds[self._next]
            if not MPI.Request.Testall(current.requests):
                return False
            self._advance(current)
        # It needs no help any more; the caller still waits for it, but others need not.
        self._channel.in_flight.pop(self._tag, None)
        return True

    def run(self) -> None:
        """Start and wait."""
        self.start()
        self.wait()

    def close(self) -> None:
        """Free all requests. A run in flight is finished first; closing twice is harmless."""
        if self._closed:
            return
        if self._next >= 0:
            self.wait()
        for r in self._rounds:
            r.free()
        self._channel.give_back(self._tag)
        self._closed = True

    def __del__(self) -> None:
        # A run in flight is kept alive by the channel, so what comes here has none.
        if not getattr(self, "_closed", True) and MPI is not None and not MPI.Is_finalized():
            self.close()

    def _check_started(self, what: str) -> None:
        if self._next < 0:
            raise RuntimeError(f"{what}: this plan was not started")

    def _advance(self, current: _Round) -> None:
        current.finish()
        self._next += 1
        if self._next < len(self._rounds):
            self._rounds[self._next].start()

    def _finish(self) -> None:
        self._next = -1
        self._channel.in_flight.pop(self._tag, None)
        if self._traffic is not None:
            self._traffic.add(self.messages, self.bytes_sent, self._seconds)


@dataclass(frozen=True, slots=True)
class _Move:
    """A step that moves data, and where its data lies on the way.

    Attributes:
        step: what to do.
        view: the blocks.
        scratch: "" where MPI reads or writes the blocks themselves; "host" or "device" where a
            copy in scratch memory stands for them.
    """

    step: Step
    view: Any
    scratch: str

    @property
    def nbytes(self) -> int:
        return int(self.view.size) * int(self.view.dtype.itemsize)


def _moves(steps: Round, blocks: Blocks, own: int) -> list[_Move]:
    """Return what a round does, without the blocks that are empty."""
    moves = []
    for step in steps:
        view = blocks.view(int(step.block), int(step.count))
        if view.size == 0:
            continue
        scratch = ""
        if not isinstance(step, Zero):
            lands = "device" if on_device(view) else "host"
            if step.peer == own:
                scratch = "" if isinstance(step, Send) else lands
            elif on_device(view) and not mpi_is_cuda_aware():
                scratch = "host"
            elif isinstance(step, Reduce) or not view.flags.c_contiguous:
                scratch = lands
        moves.append(_Move(step, view, scratch))
    return moves


class _Scratch:
    """The memory that all rounds share: nothing in it outlives a round.

    Host memory is pinned where it stands for blocks on a device.
    """

    def __init__(self, moves: Sequence[Sequence[_Move]]) -> None:
        self._areas: dict[str, Any] = {}
        self._used: dict[str, int] = {}
        self.nbytes = 0
        for kind in ("host", "device"):
            need = max(
                (sum(_aligned(m) for m in mine if m.scratch == kind) for mine in moves), default=0
            )
            if not need:
                continue
            like = next(m.view for mine in moves for m in mine if m.scratch == kind)
            self._areas[kind] = (
                host_empty(like, need) if kind == "host" else namespace(like).empty(need, np.uint8)
            )
            self.nbytes += need

    def rewind(self) -> None:
        """Begin a round."""
        self._used = {"host": 0, "device": 0}

    def take(self, move: _Move) -> Any:
        """Return memory that stands for the blocks of a move, of their shape and dtype."""
        start = self._used[move.scratch]
        self._used[move.scratch] = start + _aligned(move)
        part = self._areas[move.scratch][start : start + move.nbytes]
        return part.view(move.view.dtype).reshape(move.view.shape)


def _aligned(move: _Move) -> int:
    return -(-move.nbytes // 64) * 64


class _Round:
    """The requests, copies and sums of one round."""

    def __init__(
        self,
        moves: Sequence[_Move],
        op: Op,
        own: int,
        comm: MPI.Comm,
        tag: int,
        scratch: _Scratch,
        message_bytes: int,
    ) -> None:
        self.requests: list[MPI.Request] = []
        self.messages = 0
        self.bytes_sent = 0
        self._op = op
        self._pack: list[tuple[Any, Any]] = []  # (blocks, copy of them) before the messages go
        self._zero: list[Any] = []
        # (blocks, what arrived, accumulate it?, is its sender the lower rank?)
        self._into: list[tuple[Any, Any, bool, bool]] = []
        self._sync: Any = None  # an array whose device MPI reads by itself
        to_self = deque(m.view for m in moves if isinstance(m.step, Send) and m.step.peer == own)
        for move in moves:
            step, view = move.step, move.view
            if isinstance(step, Zero):
                self._zero.append(view)
                continue
            buffer = scratch.take(move) if move.scratch else view
            if not isinstance(step, Send) and buffer is not view:
                self._into.append((view, buffer, isinstance(step, Reduce), bool(step.peer < own)))
            if step.peer == own:
                if not isinstance(step, Send):
                    self._pack.append((to_self.popleft(), buffer))
                continue
            if on_device(buffer):
                self._sync = buffer
            init = comm.Send_init if isinstance(step, Send) else comm.Recv_init
            data = buffer.reshape(-1).view(np.uint8)
            for start in range(0, move.nbytes, message_bytes):
                part = data[start : start + message_bytes]
                self.requests.append(init([part, MPI.BYTE], int(step.peer), tag))
                self.messages += isinstance(step, Send)
            if isinstance(step, Send):
                self.bytes_sent += move.nbytes
                if buffer is not view:
                    self._pack.append((view, buffer))

    @property
    def idle(self) -> bool:
        return not (self.requests or self._zero or self._into)

    def start(self) -> None:
        for view, buffer in self._pack:
            _copy(view, buffer)
        if self._sync is not None:
            synchronize(self._sync)
        if self.requests:
            MPI.Prequest.Startall(self.requests)  # type: ignore[arg-type]

    def finish(self) -> None:
        for view in self._zero:
            view[...] = 0
        for view, buffer, accumulate, lower in self._into:
            if not accumulate:
                _copy(buffer, view)
                continue
            xp = namespace(view)
            arrived = buffer if on_device(buffer) == on_device(view) else xp.asarray(buffer)
            # By rank, not by who holds what: so both sides of an exchange get the same bits, also
            # where an operation tells its operands apart (the sign of a zero, the bits of a NaN).
            first, second = (arrived, view) if lower else (view, arrived)
            self._op(xp, first, second, view)

    def free(self) -> None:
        for request in self.requests:
            request.Free()
        self.requests.clear()


def _copy(source: Any, target: Any) -> None:
    """Copy between any two of host and device."""
    if isinstance(target, np.ndarray):
        to_host(source, target)
    elif isinstance(source, np.ndarray):
        from_host(source, target)
    else:
        target[...] = source
