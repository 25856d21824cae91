"""How ranks compare their calls: each sends its own to rank 0, which answers all.

Messages are probed for, so that none is truncated, and carry the number of the call, so that none
is taken for that of another. A rank that waits no longer says so. A rank that comes late finds the
answer that was given without it, and is then as far as the others.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mpi4py import MPI

from collectives.channel import AGREEMENT_TAG, BROKEN, Channel, give_way
from collectives.disagreement import Call, complaint

NOTICE = 0.01
"""Seconds after which rank 0 tells those who wait that it waits too."""

PARTING = 1.0
"""Seconds to wait for left-over messages when a communicator is freed."""

SETTLE = 0.02
"""Seconds in which what was sent long ago arrives."""


class _Answer(NamedTuple):
    """What rank 0 finds.

    Attributes:
        text: what is wrong; "" where nothing is.
        settled: whether all ranks came and waited, so that no message is left over.
    """

    text: str
    settled: bool


class _Message(NamedTuple):
    """What travels.

    Attributes:
        number: of the call; 0 for the last message on a communicator.
        content: to rank 0: a call, or None from a rank that waits no longer; from rank 0: an
            answer, or None where it is waiting itself.
        sent: seconds since the epoch.
    """

    number: int
    content: Call | _Answer | None
    sent: float


@dataclass(slots=True)
class _Found:
    """What has come to rank 0 for one call.

    Attributes:
        calls: by rank.
        left: ranks that wait no longer.
        since: when the first of them sent its call, in seconds since the epoch.
    """

    calls: dict[int, Call]
    left: set[int]
    since: float


class Rendezvous:
    """Where the ranks of one communicator compare their calls.

    Attributes:
        calls: how many calls this rank has compared.
    """

    def __init__(self, channel: Channel) -> None:
        self.calls = 0
        self._channel = channel
        self._comm = channel.comm
        self._sent: list[MPI.Request] = []
        self._settled = True  # whether all that was sent is received
        # What ranks have sent for calls that rank 0 has not come to.
        self._early: defaultdict[int, deque[_Message]] = defaultdict(deque)

    def exchange(self, mine: Call, timeout: float) -> str:
        """Compare this rank's call with those of the others; return what is wrong, or "".

        Runs in flight on the communicator go on meanwhile.

        Args:
            mine: the call of this rank.
            timeout: seconds to wait for the other ranks.
        """
        try:
            return self._exchange(mine, timeout)
        except BaseException as error:  # as of Ctrl-C: the others may go on as if all had agreed
            self._channel.in_flight.setdefault(BROKEN, self._channel)
            self._channel.break_off(self._channel, error)
            raise

    def _exchange(self, mine: Call, timeout: float) -> str:
        self.calls += 1
        if self._comm.Get_rank() == 0:
            answer = self._collect(mine, timeout)
            for rank in range(1, self._comm.Get_size()):
                self._send(rank, answer)
        else:
            self._send(0, mine)
            answer = self._answer(timeout)
        self._settled = answer.settled
        self._sent = [request for request in self._sent if not request.Test()]
        return answer.text

    def close(self) -> None:
        """Receive what is left over of a call that some rank did not wait for.

        The next communicator may get the place of this one in the library, and its messages.
        """
        if not self._settled:
            rank, size = self._comm.Get_rank(), self._comm.Get_size()
            others = {0} if rank else set(range(1, size))
            self.calls = 0
            for other in others:
                self._send(other, None)
            patience = _Patience(PARTING)
            while others and not patience.over():
                for source, message in self._arrived():
                    if message.number == 0:
                        others.discard(source)
                patience.rest()
        for request in self._sent:
            request.Free()
        self._sent.clear()

    def _send(self, rank: int, content: Call | _Answer | None) -> None:
        message = tuple(_Message(self.calls, content, time.time()))
        self._sent.append(self._comm.isend(message, rank, AGREEMENT_TAG))

    def _arrived(self) -> Iterator[tuple[int, _Message]]:
        """Receive what there is, each with its source."""
        status = MPI.Status()
        while (probed := self._comm.improbe(MPI.ANY_SOURCE, AGREEMENT_TAG, status)) is not None:
            yield status.Get_source(), _Message(*probed.recv())

    def _collect(self, mine: Call, timeout: float) -> _Answer:
        """Compare the calls, on rank 0."""
        size = self._comm.Get_size()
        found = _Found({0: mine}, set(), time.time())
        came = found.since
        patience = _Patience(timeout)
        told = False
        while not patience.over():
            self._take(found)
            if len(found.calls) + len(found.left) == size and (
                # After so long, one may have left: its word may be on the way.
                came - found.since < timeout / 2 or patience.seconds() > SETTLE
            ):
                break
            if not told and patience.seconds() > NOTICE:
                told = True
                for rank in range(1, size):
                    self._send(rank, None)
            self._rest(patience)
        absent = set(range(size)) - set(found.calls) - found.left
        text = complaint(found.calls, absent, found.left, timeout)
        return _Answer(text, not absent and not found.left)

    def _take(self, found: _Found) -> None:
        """Sort in what has arrived."""
        for source, message in self._arrived():
            self._early[source].append(message)
        for rank, messages in self._early.items():
            while messages and messages[0].number <= self.calls:
                number, content, sent = messages.popleft()
                if number < self.calls:
                    continue  # too late: its answer is on the way to it
                found.since = min(found.since, sent)
                if isinstance(content, Call):
                    found.calls[rank] = content
                else:
                    found.calls.pop(rank, None)
                    found.left.add(rank)

    def _answer(self, timeout: float) -> _Answer:
        """Return what rank 0 says about this call."""
        patience = _Patience(timeout)
        heard = False
        while not patience.over():
            for _, (number, content, _) in self._arrived():
                if number < self.calls:
                    continue
                if isinstance(content, _Answer):
                    return content
                heard = True
                # Rank 0 answers within the same time, counted from when it came.
                patience = _Patience(timeout + 1)
            self._rest(patience)
        self._send(0, None)
        if heard:
            return _Answer(f"rank 0 came, but has not answered within {timeout:g} s", False)
        return _Answer(
            f"rank 0 did not come within {timeout:g} s; as it compares the calls, nothing is known "
            "of the others",
            False,
        )

    def _rest(self, patience: _Patience) -> None:
        for run in list(self._channel.in_flight.values()):
            run.progress()
        patience.rest()


class _Patience:
    """How long to wait, and how long to sleep meanwhile: ever longer, as it may take long."""

    def __init__(self, timeout: float) -> None:
        self._begin = time.monotonic()
        self._timeout = timeout
        self._rests = 0

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def over(self) -> bool:
        return self.seconds() > self._timeout

    def rest(self) -> None:
        self._rests += 1
        if self._rests < 200:
            give_way()
        else:
            time.sleep(min(self.seconds() / 20, 2e-3))
