"""A private communicator for each communicator, so that no tag can meet the user's own.

The duplicate is made once, at the first plan on a communicator, kept as an attribute of it, and
freed with it. Plans are made in the same order on all ranks, so each gets a tag of its own by
counting. When the tags are used up, the ranks agree on those whose plans are closed everywhere.

Any statement of Python may raise: there, the handler of a signal may have run. So where an
exception comes out of the middle of a run, nobody knows how far that run has come, and the channel
is broken for good: what is asked of it raises, and what others may still write to stays.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from mpi4py import MPI

TAGS = 3 << 13
"""How many plans of one communicator can be told apart."""

CALL_TAGS = (1 << 13) - 2
"""How many calls of one communicator may be under way at once. Every MPI has 2^15 tags."""

AGREEMENT_TAG = TAGS + CALL_TAGS
"""Ranks compare their calls with it, whatever these calls are."""

ALARM_TAG = AGREEMENT_TAG + 1
"""The last tag: a rank that has waited too long tells the others."""


BROKEN = -2
"""What breaks a channel is called so among the runs in flight, so that a plan need look only there.

It is put there first of all where an exception is caught, and by a method that is written in C: no
signal's handler runs before that is done, which might raise again. What is there already stays.
"""


class InFlight(Protocol):
    """A run that is under way, and needs this rank's help to go on."""

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether the run is finished."""


class Disowned(Protocol):
    """What ends with the communicator, whoever has it."""

    def disown(self) -> None:
        """Begin nothing any more: the communicator is about to be freed."""


class Companion(Protocol):
    """What another module keeps for a communicator."""

    def close(self) -> None:
        """Release it: the communicator is about to be freed."""


C = TypeVar("C", bound=Companion)


class Channel:
    """The private duplicate of a communicator.

    Attributes:
        comm: the duplicate.
        in_flight: the runs under way; they are kept alive, since MPI writes to their memory. Also
            the one that has broken the channel, as BROKEN.
        plans: those that live, but for those of persistent requests.
        freed: the communicator is no more.
        kept: what must not end before the process does, since others may write to it.
    """

    def __init__(self, comm: MPI.Comm, opening: MPI.Request) -> None:
        self.comm = comm
        self.in_flight: dict[int, InFlight] = {}
        self.plans: weakref.WeakSet[Disowned] = weakref.WeakSet()
        self._held: weakref.WeakSet[Disowned] = weakref.WeakSet()
        self.freed = False
        self.kept: list[object] = []
        self._broken = ""
        self._companions: dict[type[Companion], Companion] = {}
        self._opening: MPI.Request | None = opening
        self._calls = 0
        self._free = deque(range(TAGS))
        self._taken = np.zeros(TAGS, np.uint8)

    def open(self, timeout: float | None = None) -> None:
        """Wait until the duplicate is made, which takes all ranks; at most ``timeout`` seconds.

        Raises:
            TimeoutError: not all ranks came.
        """
        if self._opening is None:
            return
        if timeout is None:
            self._opening.Wait()
        else:
            end = time.monotonic() + timeout
            while not self._opening.Test():
                if time.monotonic() > end:
                    raise TimeoutError(f"not all ranks came within {timeout:g} s")
                time.sleep(1e-4)
        self._opening = None

    def close(self) -> None:
        """Free the duplicate, if it was ever made; what is under way keeps it.

        A broken one is kept with all that belongs to it: others may still write to that.
        """
        self.freed = True
        if self.broken:
            _lost.append(self)
            return
        for plan in list(self.plans):
            plan.disown()
        if self.in_flight or self._held:  # they need what belongs to the channel, up to their end
            _lost.append(self)
            return
        for companion in self._companions.values():
            companion.close()
        if self._opening is None:
            self.comm.Free()

    def hold(self, plan: Disowned) -> None:
        """Let a plan be run after the communicator was freed, as MPI does persistent requests."""
        self.plans.discard(plan)
        self._held.add(plan)

    @property
    def broken(self) -> bool:
        """Whether an exception has come out of the middle of a run."""
        return BROKEN in self.in_flight

    def check(self) -> None:
        """Check that the channel is not broken.

        Raises:
            RuntimeError: it is.
        """
        if BROKEN in self.in_flight:
            raise RuntimeError(
                "this communicator can no longer be used: "
                f"{self._broken or 'a run was interrupted'}, and nobody knows how far that has "
                "come. End the job (see collectives.abort_on_exception) "
                f"(rank {self.comm.Get_rank()} of {self.comm.Get_size()})"
            )

    def break_off(self, run: InFlight, error: BaseException) -> None:
        """Break the channel for good, unless the error has left all as it should be.

        Args:
            run: what was interrupted. It is among those in flight already, as BROKEN.
            error: what has come out of its middle (see `harmless`).
        """
        if self._broken:
            return
        if is_harmless(error):
            if self.in_flight.get(BROKEN) is run:
                del self.in_flight[BROKEN]
            return
        what = "the making of a plan" if run is self else "a run"
        told = {part: getattr(run, part, "") for part in ("collective", "algorithm", "executor")}
        if told["algorithm"]:
            what = " ".join(["a run of", *filter(None, told.values())])
        why = f"{type(error).__name__}: {error}".removesuffix(": ")
        self._broken = f"{what} was interrupted by {why}"

    def companion(self, kind: type[C], make: Callable[[], C]) -> C:
        """Return what another module keeps for the communicator; it is made at first use.

        Args:
            kind: its class; there is one of each.
            make: makes it. Whether that is collective is its own matter.
        """
        found = self.known(kind)
        if found is None:
            found = self._companions[kind] = make()
        return found

    def known(self, kind: type[C]) -> C | None:
        """Return what another module keeps, if it was made before."""
        found = self._companions.get(kind)
        assert found is None or isinstance(found, kind)
        return found

    def meet(self) -> None:
        """Wait until all ranks have come, while runs in flight go on.

        It is for what comes before calls of MPI that block: ranks may wait for a run in flight
        before they come to them, and that run for this rank.
        """
        self.finish(self.comm.Ibarrier())

    def finish(self, request: MPI.Request) -> None:
        """Wait for a request, while runs in flight go on."""
        try:
            while not request.Test():
                self.progress()
                give_way()
        except BaseException as error:
            self.in_flight.setdefault(BROKEN, self)
            self.break_off(self, error)
            raise

    def take_tag(self) -> int:
        """Return a tag that no living plan has; collective when all have been given out.

        Raises:
            RuntimeError: there are as many plans as tags.
        """
        if not self._free:
            taken = self._taken.copy()
            self.meet()
            self.comm.Allreduce(MPI.IN_PLACE, taken, MPI.MAX)
            self._free.extend(np.flatnonzero(taken == 0).tolist())
            if not self._free:
                raise RuntimeError(f"{TAGS} plans on one communicator are open; close some")
        tag = self._free.popleft()
        self._taken[tag] = 1
        return tag

    def call_tag(self) -> int:
        """Return a tag by counting calls: for what is called in the same order on all ranks."""
        tag = TAGS + self._calls % CALL_TAGS
        self._calls += 1
        return tag

    def progress(self, but: InFlight | None = None) -> bool:
        """Let all runs under way go on as far as they can without waiting, but for one.

        Returns:
            Whether none is under way any more.

        Raises:
            RuntimeError: the channel is broken.
        """
        self.check()
        for run in list(self.in_flight.values()):
            if run is not but:
                try:
                    run.progress()
                except BaseException as error:
                    self.in_flight.setdefault(BROKEN, run)
                    self.break_off(run, error)
                    raise
        return not self.in_flight

    def give_back(self, tag: int) -> None:
        """Tell that the plan with this tag is closed."""
        self._taken[tag] = 0


_lost: list[Channel] = []  # freed, but broken or in use: they live as long as the process

E = TypeVar("E", bound=BaseException)

_HARMLESS = "_leaves_the_channel_whole"


def harmless(error: E) -> E:
    """Mark and return an error that comes out of a run, but leaves all as it should be."""
    setattr(error, _HARMLESS, True)
    return error


def is_harmless(error: BaseException) -> bool:
    """Return whether an error is so marked."""
    return hasattr(error, _HARMLESS)


def give_way() -> None:
    """Give the core to others for a moment: where ranks share one, a peer may need it."""
    _give_way()


# ``time.sleep(0)`` comes back only after some 70 us; but not every system has the other.
_give_way: Callable[[], None] = getattr(os, "sched_yield", None) or (lambda: time.sleep(0))


def _free(comm: MPI.Comm, keyval: int, channel: Any) -> None:
    if not MPI.Is_finalized():
        channel.close()


_lock = threading.Lock()
_keyvals: list[int] = []


def _keyval() -> int:
    with _lock:
        if not _keyvals:
            # None as copy function: a duplicate of the user's communicator gets its own channel.
            _keyvals.append(MPI.Comm.Create_keyval(None, _free))
        return _keyvals[0]


def check_comm(comm: Any) -> None:
    """Check that ``comm`` is one that collectives can run on.

    Raises:
        TypeError: it is not a communicator of mpi4py.
        ValueError: it is MPI.COMM_NULL or an intercommunicator.
    """
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm: is a {type(comm).__name__}; needs a communicator of mpi4py")
    if comm == MPI.COMM_NULL or comm.Is_inter():
        raise ValueError("comm: needs an intracommunicator that this rank belongs to")


def open_channel(comm: MPI.Comm, timeout: float | None = None) -> Channel:
    """Return the channel of a communicator. Collective at first use, which duplicates it.

    Args:
        comm: an intracommunicator.
        timeout: seconds to wait for the other ranks at first use; None: for ever.

    Raises:
        TypeError: ``comm`` is not a communicator.
        ValueError: ``comm`` is MPI.COMM_NULL or an intercommunicator.
        TimeoutError: not all ranks came; a later call goes on waiting for them.
        RuntimeError: the channel is broken.
    """
    check_comm(comm)
    channel: Any = comm.Get_attr(_keyval())
    if channel is None:
        channel = Channel(*comm.Idup())
        comm.Set_attr(_keyval(), channel)
    assert isinstance(channel, Channel)
    channel.open(timeout)
    channel.check()
    return channel
