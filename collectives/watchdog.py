"""End a job that waits for ever, and show what each rank was doing.

Where a wait lasts longer than its limit, the rank tells its stacks and which ranks it waits for,
and asks the others, which do the same, also those that wait for something else or for nothing. A
rank that does not answer is asked by a signal, and another of its node tells what it has written,
the stack of its main thread (see `collectives.witness`). Then the job is aborted. All that takes
about three seconds.

A thread looks at the clock four times a second. A wait only notes its limit where the thread finds
it, so that a watched wait costs less than a microsecond more. The waits of this package let go of
Python's lock, so the thread is heard.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from mpi4py import MPI

from collectives.channel import ALARM_TAG, BROKEN, Channel, open_channel
from collectives.disagreement import list_ranks
from collectives.plan import Plan
from collectives.witness import SAID, Shown, Witness, stacks_here

INTERVAL = 0.25
"""Seconds between two looks at the clock."""

HEARING = 0.5
"""Seconds for the ranks of a node to speak, before those of other nodes are asked."""

ANSWER = 1.0
"""Seconds for these to speak, before others speak for them; and again before the end."""

ASKED = 4
"""How many ranks of another node are asked: the first may be the one that does not answer."""


def watched(make: Callable[[], Plan], comm: MPI.Comm, seconds: float) -> Plan:
    """Return a plan whose making and whose waits end the job when they last longer.

    Collective over ``comm``. (The first call on a communicator brings its ranks together before
    anything is watched.)

    Args:
        make: makes the plan, which is owned by the new one from then on.
        comm: its communicator. The stacks of its ranks are shown; others are only ended.
        seconds: limit of each wait, the same on all ranks or not; above 0.
    """
    pack = pack_of(comm)
    with limited(pack, seconds, "a plan that is being made"):
        plan = make()
    return WatchedPlan(plan, pack, seconds)


def pack_of(comm: MPI.Comm) -> Pack:
    """Return the ranks of a communicator, as they show themselves. Collective at first use."""
    channel = open_channel(comm)
    return channel.companion(Pack, lambda: Pack(_watchdog(), channel))


@contextlib.contextmanager
def limited(pack: Pack, seconds: float, what: str) -> Iterator[None]:
    """Return a context that ends the job when it lasts longer.

    Args:
        pack: the ranks that show their stacks.
        seconds: the limit.
        what: what is done inside.
    """
    span = _Span(pack, seconds, what)
    waits = pack.watchdog.waits
    waits[span] = time.monotonic() + seconds
    try:
        yield
    finally:
        del waits[span]


class _Span:
    """Stands for what is done in a context that must not last too long."""

    executor = "no plan"

    def __init__(self, pack: Pack, seconds: float, what: str) -> None:
        self.pack, self.seconds, self.algorithm = pack, seconds, what

    def waiting_for(self) -> list[int]:
        """Nobody knows: MPI does not tell who is missing in its own collectives."""
        return []


class WatchedPlan(Plan):
    """A plan with a limit for each wait; see `watched`."""

    def __init__(self, plan: Plan, pack: Pack, seconds: float) -> None:
        self.seconds = seconds
        self.pack = pack
        self._plan = plan
        self._waits = pack.watchdog.waits
        self.messages, self.bytes_sent = plan.messages, plan.bytes_sent
        self.scratch_bytes = plan.scratch_bytes
        self.algorithm, self.executor = plan.algorithm, plan.executor

    def start(self) -> None:
        """Begin a run. Does not block."""
        self._plan.start()

    def test(self) -> bool:
        """Make progress without blocking; return whether the run is finished."""
        return self._plan.test()

    def wait(self) -> None:
        """Block until the run is finished; end the job if that takes too long."""
        self._waits[self] = time.monotonic() + self.seconds
        try:
            self._plan.wait()
        finally:
            del self._waits[self]

    def run(self) -> None:
        """Start and wait. What interrupts that breaks the communicator, also between the two."""
        try:
            super().run()
        except BaseException as error:
            self.pack.channel.in_flight.setdefault(BROKEN, self)
            self.pack.channel.break_off(self, error)
            raise

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""
        return self._plan.progress()

    def waiting_for(self) -> list[int]:
        """Return the ranks whose messages are still missing."""
        return self._plan.waiting_for()

    def rebind(self, *regions: Any) -> None:
        """Run on other arrays from now on."""
        self._plan.rebind(*regions)

    def close(self) -> None:
        """Close the plan; a run in flight is finished first, within the limit."""
        self._waits[self] = time.monotonic() + self.seconds
        try:
            self._plan.close()
        finally:
            del self._waits[self]


class Pack:
    """The ranks of one communicator, as they show themselves. Making one is collective.

    Attributes:
        watchdog: of this process.
        channel: of the communicator.
        members: by rank of the communicator.
    """

    def __init__(self, watchdog: Watchdog, channel: Channel) -> None:
        self.watchdog = watchdog
        self.channel = channel
        self._comm = channel.comm
        self._lock = threading.Lock()  # the communicator is not freed while it is looked at
        channel.meet()
        self.members = [Shown(*m) for m in self._comm.allgather(tuple(watchdog.witness.shown))]
        place = watchdog.witness.shown.place
        far: dict[str, list[int]] = {}
        for rank, member in enumerate(self.members):
            if member.place != place:
                far.setdefault(member.place, []).append(rank)
        # Messages of a thread of its own need an MPI that allows them.
        may_send = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._far = [rank for ranks in far.values() for rank in ranks[:ASKED]] if may_send else []
        watchdog.packs.append(self)

    def near(self) -> list[Shown]:
        """Return the members whose processes this one sees, in the order of the communicator."""
        return [m for m in self.members if m.place == self.watchdog.witness.shown.place]

    def heard(self) -> bool:
        """Return whether a rank of another node asks."""
        with self._lock:
            return bool(self._far) and self._comm.Iprobe(MPI.ANY_SOURCE, ALARM_TAG)

    def ask_far(self) -> list[MPI.Request]:
        """Ask ranks of all other nodes."""
        return [self._comm.isend(None, rank, ALARM_TAG) for rank in self._far]

    def close(self) -> None:
        """Leave the watchdog: the communicator is about to be freed."""
        with self._lock:
            self._far = []
        self.watchdog.packs.remove(self)


class Watchdog:
    """Looks at the clock, in a thread of its own. One for each process.

    Attributes:
        waits: the waits under way, with the time at which each is too long.
        packs: the communicators that it looks after.
        witness: this process.
    """

    def __init__(self) -> None:
        self.waits: dict[WatchedPlan | _Span, float] = {}
        self.packs: list[Pack] = []
        self._rank, self._size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
        self.witness = Witness(self._rank)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
        self._thread.start()
        # MPI may be finalized when the interpreter is half gone: the thread ends before.
        atexit.register(self.close)

    def close(self) -> None:
        """End the thread; closing twice is harmless."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            atexit.unregister(self.close)

    def _look(self) -> None:
        while not self._over.wait(INTERVAL):
            now = time.monotonic()
            late = [plan for plan, limit in list(self.waits.items()) if now > limit]
            if late:
                self._bark(f"timeout={late[0].seconds:g} s is over")
                return
            if self.witness.asked() or any(pack.heard() for pack in list(self.packs)):
                self._bark("")
                return

    def _bark(self, reason: str) -> None:
        """Tell, let the others tell, and end the job: at once where the reason is here."""
        self._say(self._state() + "\n" + stacks_here())
        self.witness.has_spoken()
        packs = list(self.packs)
        for member in {m for pack in packs for m in pack.near()}:
            if member != self.witness.shown and not member.written():
                member.ask()
        time.sleep(HEARING)
        if self._is_first(packs):
            # Kept until the end, which frees them.
            asked = [request for pack in packs for request in pack.ask_far()]
            time.sleep(ANSWER)
            self._speak_for_others(packs)
            del asked
        else:
            time.sleep(ANSWER)
        # Output that a launcher has not yet passed on is lost with the job.
        time.sleep(ANSWER if reason else 5 * ANSWER)
        self._say(f"the job is ended: {reason or 'another rank has asked for it'}")
        self.witness.end_soon(2 * ANSWER)
        time.sleep(ANSWER / 2)
        with contextlib.suppress(Exception):
            MPI.COMM_WORLD.Abort(1)
        os._exit(1)

    def _state(self) -> str:
        """Return what this rank waits for."""
        lines = []
        for plan, limit in sorted(self.waits.items(), key=lambda item: item[1]):
            seconds = time.monotonic() - limit + plan.seconds
            what = f"{plan.algorithm} ({plan.executor})"
            lines.append(f"has waited {seconds:.1f} s for {what}, {self._missing(plan)}")
        return "\n".join(lines) or "is in no watched wait"

    def _missing(self, plan: WatchedPlan | _Span) -> str:
        try:
            if plan.executor == "python" and MPI.Query_thread() < MPI.THREAD_MULTIPLE:
                return "of ranks that this MPI does not let another thread find out"
            peers = plan.waiting_for()
        except Exception as error:  # whatever it is, the stacks are to be told
            return f"of ranks that cannot be found out ({error})"
        members = plan.pack.members
        ranks = [members[peer].rank for peer in peers if 0 <= peer < len(members)]
        return f"of {list_ranks(ranks)}" if ranks else "of ranks that are not known"

    def _is_first(self, packs: list[Pack]) -> bool:
        """Return whether this rank is the first of its node that speaks for itself."""
        speakers = [m for pack in packs for m in pack.near() if SAID in m.written()]
        return min((m.rank for m in speakers), default=self._rank) == self._rank

    def _speak_for_others(self, packs: list[Pack]) -> None:
        for member in sorted({m for pack in packs for m in pack.near()}):
            written = member.written()
            if SAID in written:
                continue
            if not member.lives():
                text = f"has ended (process {member.process})"
            elif written:
                text = "does not answer; its stack:\n" + written.decode(errors="replace").rstrip()
            else:
                text = f"does not answer, nor write its stacks (process {member.process})"
            self._say(text, member.rank)

    def _say(self, text: str, rank: int | None = None) -> None:
        where = f"[rank {self._rank if rank is None else rank} of {self._size}] watchdog: "
        said = "".join(f"{where}{line}\n" for line in text.splitlines())
        with contextlib.suppress(Exception):
            # One write, so that the lines of several ranks do not mingle.
            sys.stderr.write(said)
            sys.stderr.flush()


def _watchdog() -> Watchdog:
    """Return that of this process. It is kept with MPI's communicator of this process alone."""
    return open_channel(MPI.COMM_SELF).companion(Watchdog, Watchdog)
