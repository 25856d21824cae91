"""Messages between device memory and an MPI that cannot read it: in parts, through pinned memory.

Each message has two pinned buffers, so that one part is copied while another one is on its way. The
copies run on a stream of their own, which first waits for the work that is queued on the current
stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.executors.layout import Message, Stage
from collectives.memory import host_empty, namespace

BUFFERS = 2
"""Of each message."""

_ALIGN = 64


class Staging:
    """What the staged messages of a plan share: pinned memory, and a stream for the copies.

    Nothing in the memory outlives a round.

    Args:
        stages: the rounds of the plan; at least one message of them is staged.

    Attributes:
        nbytes: of the pinned memory.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        messages = [[m for m in s.messages if m.staged] for s in stages]
        first = next(m for mine in messages for m in mine).parts[0][0]
        self._xp = namespace(first)
        self._stream = self._xp.cuda.Stream(non_blocking=True)
        self.nbytes = max(sum(map(_pinned_bytes, mine)) for mine in messages)
        self._memory = host_empty(first, self.nbytes)

    def bind(self, stage: Stage, comm: MPI.Comm, tag: int) -> list[StagedMessage]:
        """Return the staged messages of a round, ready to be started."""
        made: list[StagedMessage] = []
        used = 0
        for m in stage.messages:
            if m.staged:
                stop = used + _pinned_bytes(m)
                made.append(StagedMessage(m, comm, tag, self._memory[used:stop], self._stream))
                used = stop
        return made

    def follow(self) -> None:
        """Let the copies to come wait for what is queued on the current stream. Does not block."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())


def _pinned_bytes(message: Message) -> int:
    return min(BUFFERS, len(message.parts)) * _stride(message)


def _stride(message: Message) -> int:
    return -(-sum(int(piece.size) for piece in message.parts[0]) // _ALIGN) * _ALIGN


class StagedMessage:
    """One message, part after part; in each part, one buffer after the other.

    Parts pass through three counters: those begun, those half-way, and those done. To send a part
    is to copy it to its buffer and then to hand that to MPI; to receive one is the reverse.

    Args:
        message: its parts are lists of contiguous arrays of bytes on the device.
        comm: the communicator.
        tag: of the messages.
        memory: pinned, uint8.
        stream: for the copies.

    Attributes:
        peer: the other rank.
    """

    def __init__(
        self,
        message: Message,
        comm: MPI.Comm,
        tag: int,
        memory: np.ndarray[Any, Any],
        stream: Any,
    ) -> None:
        self.peer = message.peer
        self._send = message.send
        self._parts = message.parts
        self._stream = stream
        stride = _stride(message)
        self._slots = min(BUFFERS, len(message.parts))
        self._events = [
            namespace(message.parts[0][0]).cuda.Event(disable_timing=True)
            for _ in range(self._slots)
        ]
        self._hosts: list[list[Any]] = []  # of each part, where its pieces lie in pinned memory
        self._requests: list[MPI.Prequest] = []
        init = comm.Send_init if message.send else comm.Recv_init
        for number, part in enumerate(message.parts):
            start = number % self._slots * stride
            ends = np.cumsum([start, *(piece.size for piece in part)]).tolist()
            self._hosts.append([memory[a:b] for a, b in pairwise(ends)])
            self._requests.append(init([memory[start : ends[-1]], MPI.BYTE], message.peer, tag))
        self._begun = self._half = self._over = len(message.parts)

    @property
    def done(self) -> bool:
        """Whether all has been sent, or has come and lies in its place."""
        return self._over == len(self._parts)

    def start(self) -> None:
        """Begin with the first parts. Does not block."""
        self._begun = self._half = self._over = 0
        self.progress()

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether it is done."""
        while not self.done and (self._end_one() or self._pass_one() or self._begin_one()):
            pass
        return self.done

    def free(self) -> None:
        """Free the requests."""
        for request in self._requests:
            request.Free()
        self._requests.clear()

    def _begin_one(self) -> bool:
        part = self._begun
        if part == len(self._parts) or part == self._over + self._slots:
            return False
        if self._send:
            self._copy(part)
        else:
            self._requests[part].Start()
        self._begun += 1
        return True

    def _pass_one(self) -> bool:
        part = self._half
        if part == self._begun:
            return False
        if self._send:
            if not self._copied(part):
                return False
            self._requests[part].Start()
        else:
            if not self._requests[part].Test():
                return False
            self._copy(part)
        self._half += 1
        return True

    def _end_one(self) -> bool:
        part = self._over
        if part == self._half:
            return False
        if not (self._requests[part].Test() if self._send else self._copied(part)):
            return False
        self._over += 1
        return True

    def _copy(self, part: int) -> None:
        for piece, host in zip(self._parts[part], self._hosts[part], strict=True):
            if self._send:
                piece.get(stream=self._stream, out=host, blocking=False)
            else:
                piece.set(host, stream=self._stream)
        self._stream.record(self._events[part % self._slots])

    def _copied(self, part: int) -> bool:
        return bool(self._events[part % self._slots].done)
