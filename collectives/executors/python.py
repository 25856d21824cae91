"""Run a schedule over MPI: bound once to memory and a communicator, then started many times.

This is the reference executor: persistent requests of mpi4py, and numpy or cupy for the sums. All
scratch is allocated when the plan is made, and every request is freed when it is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpi4py import MPI

from collectives.blocks import Blocks
from collectives.bound import BoundPlan
from collectives.channel import check_comm, give_way, harmless, is_harmless, open_channel
from collectives.cuda_kernels import reduce
from collectives.executors.layout import MESSAGE_BYTES, Stage, lay_out
from collectives.memory import namespace, synchronize
from collectives.op import SUM, Op
from collectives.staging import StagedMessage, Staging
from collectives.step import Round
from collectives.traffic import Traffic


class PythonPlan(BoundPlan):
    """A schedule bound to memory and to a communicator.

    Args:
        rounds: the rounds of this rank (see `collectives.step`).
        blocks: where the blocks lie. Sizes must agree on both ends of each message.
        comm: an intracommunicator.
        op: what ``Reduce`` does.
        traffic: counters to add messages, bytes and seconds to.
        message_bytes: messages longer than this are cut in parts.
        tag: of its messages (see `Channel.call_tag`); None: one of its own.
    """

    executor = "python"

    def __init__(
        self,
        rounds: Iterable[Round],
        blocks: Blocks,
        comm: MPI.Comm,
        op: Op = SUM,
        *,
        traffic: Traffic | None = None,
        message_bytes: int = MESSAGE_BYTES,
        tag: int | None = None,
    ) -> None:
        self._rounds: list[_Round] = []
        self._next = -1  # the round in flight; -1: not started
        self._traffic = traffic
        check_comm(comm)
        stages, scratch = lay_out(rounds, blocks, comm.Get_rank(), message_bytes)
        self.scratch_bytes = sum(area.nbytes for area in scratch)
        sent = [m for s in stages for m in s.messages if m.send]
        self.messages = sum(len(m.parts) for m in sent)
        self.bytes_sent = sum(m.nbytes for m in sent)
        self._channel = open_channel(comm)
        self._counted = tag is None
        self._tag = self._channel.take_tag() if tag is None else tag
        staging = None
        if any(m.staged for s in stages for m in s.messages):
            staging = Staging(stages)
            self.scratch_bytes += staging.nbytes
        self._rounds = [_Round(s, op, self._channel.comm, self._tag, staging) for s in stages]
        self._open()

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all rounds are done."""
        while 0 <= self._next < len(self._rounds):
            current = self._rounds[self._next]
            if not current.test():
                return False
            self._advance(current)
        # It needs no help any more; the caller still waits for it, but others need not.
        self._channel.in_flight.pop(self._tag, None)
        return True

    def waiting_for(self) -> list[int]:
        """Return the ranks whose messages are still missing; [] where it does not run."""
        if not 0 <= self._next < len(self._rounds):
            return []
        return self._rounds[self._next].waiting_for()

    def _begin(self) -> None:
        self._next = 0
        self._channel.in_flight.setdefault(self._tag, self)
        if self._rounds:
            self._rounds[0].start()

    def _complete(self) -> None:
        while self._next < len(self._rounds) and len(self._channel.in_flight) > 1:
            self._channel.progress()
            give_way()
        while self._next < len(self._rounds):
            current = self._rounds[self._next]
            current.wait()
            self._advance(current)

    def _stop(self) -> None:
        self._next = -1
        self._channel.in_flight.pop(self._tag, None)
        super()._stop()

    def _release(self) -> None:
        # At once: a thread that looks after it may have come to its end, too.
        rounds, self._rounds = self._rounds, []
        for r in rounds:
            r.free()
        if self._counted:
            self._channel.give_back(self._tag)

    def _advance(self, current: _Round) -> None:
        try:
            current.finish()
        except Exception as error:
            if is_harmless(error):  # this run cannot go on, also not to be closed
                self._stop()
            raise
        self._next += 1
        if self._next < len(self._rounds):
            self._rounds[self._next].start()


class _Round:
    """The requests, copies and sums of one round."""

    def __init__(
        self, stage: Stage, op: Op, comm: MPI.Comm, tag: int, staging: Staging | None
    ) -> None:
        self.requests: list[MPI.Request] = []
        self.peers: list[int] = []
        self._stage = stage
        self._op = op
        self._types: list[MPI.Datatype] = []
        self._staging = staging
        self._staged: list[StagedMessage] = staging.bind(stage, comm, tag) if staging else []
        for message in stage.messages:
            if message.staged:
                continue
            init = comm.Send_init if message.send else comm.Recv_init
            for part in message.parts:
                self.requests.append(init(self._buffer(part), message.peer, tag))
                self.peers.append(message.peer)

    def _buffer(self, part: list[Any]) -> Any:
        if len(part) == 1:
            return [part[0], MPI.BYTE]
        addresses = [int(d.ctypes.data) for d in part]
        made = MPI.BYTE.Create_hindexed([d.size for d in part], addresses).Commit()
        self._types.append(made)
        return [MPI.BOTTOM, 1, made]

    def start(self) -> None:
        for source, target in self._stage.copies:
            target[...] = source
        if self._stage.device is not None:
            synchronize(self._stage.device)
        if self.requests:
            MPI.Prequest.Startall(self.requests)  # type: ignore[arg-type]
        if self._staging is not None and self._staged:
            self._staging.follow()
            for message in self._staged:
                message.start()

    def test(self) -> bool:
        """Make progress; return whether all messages have come and gone."""
        over = bool(MPI.Request.Testall(self.requests))
        for message in self._staged:
            over = message.progress() and over
        return over

    def wait(self) -> None:
        """Wait until all messages have come and gone."""
        if not self._staged:
            MPI.Request.Waitall(self.requests)
            return
        while not self.test():
            give_way()

    def finish(self) -> None:
        for view in self._stage.zeros:
            view[...] = 0
        for a in self._stage.arrivals:
            if not a.reduce:
                a.view[...] = a.buffer
                continue
            # By rank, not by who holds what: so both sides of an exchange get the same bits, also
            # where an operation tells its operands apart (the sign of a zero, the bits of a NaN).
            first, second = (a.buffer, a.view) if a.lower else (a.view, a.buffer)
            try:
                reduce(self._op, namespace(a.view), first, second, a.view)
            except Exception as error:  # of a user's operation; all messages have come and gone
                if not self._op.is_built_in:
                    harmless(error)
                raise

    def waiting_for(self) -> list[int]:
        left = {p for r, p in zip(self.requests, self.peers, strict=True) if not r.Get_status()}
        left |= {m.peer for m in self._staged if not m.done}
        # To another thread Open MPI calls complete what is being waited for: then it may be any.
        return sorted(left or set(self.peers))

    def free(self) -> None:
        for request in self.requests:
            request.Free()
        for message in self._staged:
            message.free()
        for datatype in self._types:
            datatype.Free()
        self.requests.clear()
        self._types.clear()
