"""Run a schedule over MPI: bound once to memory and a communicator, then started many times.

This is the reference executor: persistent requests of mpi4py, and numpy or cupy for the sums. All
scratch is allocated when the plan is made, and every request is freed when it is closed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.blocks import Blocks
from collectives.channel import open_channel
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
from collectives.step import Recv, Reduce, Round, Send, Zero, compact
from collectives.traffic import Traffic

MESSAGE_BYTES = 1 << 30
"""Longer messages are cut: counts above 2^31 need MPI 4, and 1 GiB is long enough to stream."""


class Plan:
    """A schedule bound to memory and to a communicator.

    Making one is collective over ``comm`` (at the first plan on a communicator) and must happen
    in the same order on all ranks. `start` and `wait` run it; `test` makes progress in between.
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
        self._closed = False
        steps = compact(rounds)
        self._comm, self._tag = open_channel(comm)
        scratch = _Scratch()
        for mine in steps:
            scratch.rewind()
            self._rounds.append(
                _Round(mine, blocks, op, self._comm, self._tag, scratch, message_bytes)
            )
        scratch.allocate()
        for r in self._rounds:
            r.bind()
            self.messages += r.messages
            self.bytes_sent += r.bytes_sent
        self._rounds = [r for r in self._rounds if not r.idle]
        self.scratch_bytes = scratch.nbytes

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
        if self._rounds:
            self._rounds[0].start()
        self._seconds = time.perf_counter() - begin

    def test(self) -> bool:
        """Make progress without blocking; return whether the run is finished.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("test")
        begin = time.perf_counter()
        while self._next < len(self._rounds):
            current = self._rounds[self._next]
            if not MPI.Request.Testall(current.requests):
                self._seconds += time.perf_counter() - begin
                return False
            self._advance(current)
        self._finish(begin)
        return True

    def wait(self) -> None:
        """Block until the run is finished.

        Raises:
            RuntimeError: the plan was not started.
        """
        self._check_started("wait")
        begin = time.perf_counter()
        while self._next < len(self._rounds):
            current = self._rounds[self._next]
            MPI.Request.Waitall(current.requests)
            self._advance(current)
        self._finish(begin)

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
        self._closed = True

    def __enter__(self) -> Plan:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        # After an exception a peer may never come: waiting for it here would hide the exception.

    def __del__(self) -> None:
        idle = not getattr(self, "_closed", True) and self._next < 0
        if idle and MPI is not None and not MPI.Is_finalized():
            self.close()

    def _check_started(self, what: str) -> None:
        if self._next < 0:
            raise RuntimeError(f"{what}: this plan was not started")

    def _advance(self, current: _Round) -> None:
        current.finish()
        self._next += 1
        if self._next < len(self._rounds):
            self._rounds[self._next].start()

    def _finish(self, begin: float) -> None:
        self._next = -1
        self._seconds += time.perf_counter() - begin
        if self._traffic is not None:
            self._traffic.add(self.messages, self.bytes_sent, self._seconds)


class _Scratch:
    """One allocation that all rounds share: nothing in it outlives a round."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._used = 0
        self._device: Any = None
        self._memory: Any = None

    def rewind(self) -> None:
        self._used = 0

    def reserve(self, like: Any, *, host: bool) -> tuple[int, Any, bool]:
        """Reserve room for an array like this one; return what `get` needs."""
        place = (self._used, like, host)
        self._used += -(-int(like.size) * like.dtype.itemsize // 64) * 64
        self.nbytes = max(self.nbytes, self._used)
        if not host:
            self._device = like
        elif on_device(like):
            self._memory = like
        return place

    def allocate(self) -> None:
        # Pinned where any of it stages device memory; a second area on the device if sums need it.
        like, device = self._memory, self._device
        self._memory = np.empty(self.nbytes, np.uint8)
        if like is not None:
            self._memory = host_empty(like.view(np.uint8), (self.nbytes,))
        if device is not None and on_device(device):
            self._device = namespace(device).empty(self.nbytes, np.uint8)
        else:
            self._device = self._memory

    def get(self, place: tuple[int, Any, bool]) -> Any:
        start, like, host = place
        area = self._memory if host else self._device
        nbytes = int(like.size) * like.dtype.itemsize
        return area[start : start + nbytes].view(like.dtype).reshape(like.shape)


class _Round:
    """The requests, copies and sums of one round."""

    def __init__(
        self,
        steps: Sequence[Any],
        blocks: Blocks,
        op: Op,
        comm: MPI.Comm,
        tag: int,
        scratch: _Scratch,
        message_bytes: int,
    ) -> None:
        self.requests: list[MPI.Request] = []
        self.messages = 0
        self.bytes_sent = 0
        self._op, self._comm, self._tag = op, comm, tag
        self._scratch, self._message_bytes = scratch, message_bytes
        self._pack: list[tuple[Any, Any]] = []  # (view, staged copy) before the messages go
        self._zero: list[Any] = []
        self._into: list[tuple[Any, Any, bool]] = []  # (view, what arrived, accumulate it?)
        self._sync: Any = None
        self._plan: list[tuple[Any, Any, Any]] = []  # (step, view, reserved place)
        own = comm.Get_rank()
        to_self = deque(
            blocks.view(int(s.block), int(s.count))
            for s in steps
            if isinstance(s, Send) and s.peer == own
        )
        for s in steps:
            view = blocks.view(int(s.block), int(s.count))
            if view.size == 0:
                if not isinstance(s, Zero) and s.peer == own and isinstance(s, Recv | Reduce):
                    to_self.popleft()
                continue
            if isinstance(s, Zero):
                self._zero.append(view)
                continue
            staged = on_device(view) and not mpi_is_cuda_aware()
            place = None
            if s.peer == own:
                if not isinstance(s, Send):
                    place = scratch.reserve(view, host=False)
                    self._plan.append((s, view, (place, to_self.popleft())))
                continue
            if staged or isinstance(s, Reduce) or not view.flags.c_contiguous:
                place = scratch.reserve(view, host=staged)
            self._plan.append((s, view, (place, None)))
            if on_device(view) and not staged:
                self._sync = view

    @property
    def idle(self) -> bool:
        return not (self.requests or self._zero or self._into)

    def bind(self) -> None:
        """Make the requests, now that the scratch has an address."""
        for s, view, (place, from_self) in self._plan:
            buffer = view if place is None else self._scratch.get(place)
            if from_self is not None:
                self._pack.append((from_self, buffer))
                self._into.append((view, buffer, isinstance(s, Reduce)))
                continue
            if isinstance(s, Send):
                if buffer is not view:
                    self._pack.append((view, buffer))
                self.messages += len(self._post(self._comm.Send_init, buffer, int(s.peer)))
                self.bytes_sent += int(view.size) * view.dtype.itemsize
            else:
                if buffer is not view:
                    self._into.append((view, buffer, isinstance(s, Reduce)))
                self._post(self._comm.Recv_init, buffer, int(s.peer))
        self._plan.clear()

    def _post(self, init: Any, buffer: Any, peer: int) -> list[MPI.Request]:
        data = buffer.reshape(-1).view(np.uint8)
        made = [
            init([data[i : i + self._message_bytes], MPI.BYTE], peer, self._tag)
            for i in range(0, int(data.size), self._message_bytes)
        ]
        self.requests += made
        return made

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
        for view, buffer, accumulate in self._into:
            if accumulate:
                xp = namespace(view)
                self._op(xp, view, buffer if type(buffer) is type(view) else xp.asarray(buffer))
            else:
                _copy(buffer, view)

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
