"""Memory that the ranks of a node have in common.

Each communicator has, once it is asked for, a `Node`: the ranks of it that share memory with this
one, a few cache lines of flags for each, and memory to pass data through. `empty` gives arrays in
such memory: what lies there can be read by the other ranks where it is.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.channel import Channel, check_comm, harmless, open_channel
from collectives.cores import has_own_cores
from collectives.sharedmemory import SharedMemory, SharedMemoryError

SLOTS = 4
"""How many pieces of data may be on their way through the memory of a rank."""

SLOT_BYTES = 1 << 16
"""Length of each: what it is matters little, as long as it stays in a core's cache."""

SLOTS_AT = 4096
"""Where the slots begin, after the flag: on a page of their own."""

RESULTS_AT = SLOTS_AT + SLOTS * SLOT_BYTES
"""Where the slots for results begin."""


def split_by_node(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Return the ranks of a communicator that share memory with this one."""
    found = comm.Split_type(MPI.COMM_TYPE_SHARED)
    assert isinstance(found, MPI.Intracomm)
    return found


IN_FLIGHT = -1
"""What a node is called among the runs in flight of its communicator; those have tags."""


class Turn(Protocol):
    """A run that takes its turn on a node."""

    number: int

    def advance(self, *, may_wait: bool) -> bool:
        """Go on as far as that is possible, or to the end; return whether it is finished."""


class Node:
    """The ranks of a communicator that share memory with this one, and what they share.

    Attributes:
        comm: of these ranks, in the order of the communicator.
        channel: of the communicator.
        rank: of this one among them.
        size: how many they are.
        whole: they are all ranks of the communicator.
        even: all nodes have as many ranks.
        largest: ranks on the node that has most.
        segments: int64 (2 size,): the address, here, of each rank's flag and slots; and room.
        sequence: int64 (2,): how many steps have been taken together, and how many runs. All ranks
            count alike.
        waiting: runs that have been started, in order: they share the slots, and take turns.
        table_at: int64 (1,): the address of the addresses of all windows, rank by rank.
        spin: how often a flag is looked at before the core is given to others.
        own_cores: no node has fewer cores than ranks.
    """

    def __init__(self, channel: Channel) -> None:
        assert isinstance(channel.comm, MPI.Intracomm)
        channel.meet()
        self.comm = split_by_node(channel.comm)
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.whole = self.size == channel.comm.Get_size()
        sizes = set(channel.comm.allgather(self.size))
        self.even, self.largest = len(sizes) == 1, max(sizes)
        if self.whole:  # MPI has room for some two thousand communicators
            self.comm.Free()
            self.comm = channel.comm
        self._across: MPI.Intracomm | None = None
        self.channel = channel
        self._windows: list[SharedMemory | None] = []
        self._flags = self._allocate(RESULTS_AT + SLOTS * SLOT_BYTES)
        self.segments = np.concatenate([self._flags.addresses, np.zeros(self.size, np.int64)])
        self.sequence = np.zeros(2, np.int64)
        self.waiting: deque[Turn] = deque()
        self.table_at = np.zeros(1, np.int64)
        self._table = np.zeros((0, self.size), np.int64)
        self._plans = 0
        self._due: int | None = None
        enough = has_own_cores(self.comm)
        self.spin = 2000 if enough else 0
        self.own_cores = bool(channel.comm.allreduce(enough, MPI.LAND))

    def across(self) -> MPI.Intracomm:
        """Return the ranks with the same place on their nodes. Collective at first use."""
        if self._across is None:
            assert isinstance(self.channel.comm, MPI.Intracomm)
            self.channel.meet()
            made = self.channel.comm.Split(self.rank)
            assert isinstance(made, MPI.Intracomm)
            self._across = made
        return self._across

    def allocate(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return memory in a window of its own, uint8 (nbytes,). Collective over all ranks.

        Raises:
            SharedMemoryError: there is none on some node; on all ranks.
        """
        self.channel.meet()
        self._free_dead()
        window = self._allocate(max(nbytes, 1))
        if None in self._windows:
            place = self._windows.index(None)
            self._windows[place] = window
            self._table[place] = window.addresses
        else:
            self._windows.append(window)
            self._table = np.vstack([self._table, window.addresses])
            self.table_at[0] = self._table.ctypes.data
        # Of all views of this array, as numpy makes them, it is the base that stays alive.
        array = window.array()
        weakref.finalize(array, window.die)
        return array

    def find(self, array: Any) -> tuple[int, int]:
        """Return the number of the window that an array lies in, and its offset there; or -1, 0."""
        address, nbytes = int(array.ctypes.data), array.nbytes
        for i, window in enumerate(self._windows):
            if window is not None:
                offset = address - int(window.addresses[self.rank])
                if offset >= 0 and offset + nbytes <= window.nbytes:
                    return i, offset
        return -1, 0

    def number_plan(self) -> int:
        """Return the number of a new plan. Plans are made in the same order on all ranks."""
        self._plans += 1
        return self._plans

    def add(self, run: Turn) -> None:
        """Put a run behind those that wait for their turn, or first if it is due."""
        self.waiting.append(run)
        self.channel.in_flight[IN_FLIGHT] = self
        if run.number == self._due:
            self.put_first(run.number)

    def put_first(self, number: int) -> None:
        """Let the run of a plan go first, as soon as it is started here: others have begun it."""
        run = next((run for run in self.waiting if run.number == number), None)
        self._due = number if run is None else None
        if run is not None:
            self.waiting.remove(run)
            self.waiting.appendleft(run)

    def progress(self) -> bool:
        """Let the runs go on, one after the other; return whether all are finished."""
        return self.go_on(may_wait=False)

    def go_on(self, *, may_wait: bool) -> bool:
        """Do as `progress`; where it may wait, until the first run is done.

        Raises:
            RuntimeError: it would have to wait for a run that was not started here.
        """
        while self.waiting and self._due is None:
            first = self.waiting[0]
            if first.advance(may_wait=may_wait):
                self.waiting.popleft()
                if may_wait:
                    break
            elif self.waiting[0] is first:
                break
        if self._due is not None and may_wait:
            error = RuntimeError(
                f"rank {self.rank} of the node waits for a run of plan {self.waiting[0].number}; "
                f"rank 0 has started one of plan {self._due} before it, which was not started here"
            )
            raise harmless(error)
        if not self.waiting:
            self.channel.in_flight.pop(IN_FLIGHT, None)
        return not self.waiting

    def behind(self) -> list[int]:
        """Return the ranks that have taken fewer steps than this one."""
        flags = [ctypes.c_int64.from_address(int(a)).value for a in self.segments[: self.size]]
        return [q for q, taken in enumerate(flags) if taken < flags[self.rank]]

    def close(self) -> None:
        """Free what no array uses any more; runs that are under way keep it all.

        No other rank is waited for: that may be the one that waits, in such a run.
        """
        if self.waiting:
            return
        self._flags.free()
        for window in self._windows:
            if window is not None:
                window.free()
        if self._across is not None:
            self._across.Free()
        if not self.whole:
            self.comm.Free()

    def _allocate(self, nbytes: int) -> SharedMemory:
        found, error = None, ""
        try:
            found = SharedMemory(self.comm, nbytes)
        except SharedMemoryError as problem:
            error = str(problem)
        errors = [e for e in self.channel.comm.allgather(error) if e]  # nodes may differ
        if errors or found is None:
            raise SharedMemoryError(errors[0])
        return found

    def _free_dead(self) -> None:
        # A window ends when its array is gone on all ranks.
        if not self._windows:
            return
        dead = np.array([w is not None and w.dead for w in self._windows], np.int8)
        self.comm.Allreduce(MPI.IN_PLACE, dead, MPI.MIN)
        for i in np.flatnonzero(dead):
            window = self._windows[i]
            assert window is not None
            window.free()
            self._windows[i] = None


class _Found:
    """The node of a communicator, or why it has none, so that it is not looked for again."""

    def __init__(self, channel: Channel) -> None:
        self.node: Node | None = None
        self.why = ""
        try:
            self.node = Node(channel)
        except SharedMemoryError as error:
            self.why = str(error)

    def close(self) -> None:
        """Close the node."""
        if self.node is not None:
            self.node.close()


def open_node(comm: MPI.Comm) -> Node:
    """Return the node of a communicator. Collective at first use.

    Raises:
        TypeError: ``comm`` is not a communicator.
        ValueError: ``comm`` is MPI.COMM_NULL or an intercommunicator.
        SharedMemoryError: the ranks cannot share memory; on all ranks.
    """
    channel = open_channel(comm)
    found = channel.companion(_Found, lambda: _Found(channel))
    if found.node is None:
        raise SharedMemoryError(found.why)
    return found.node


def known_node(comm: MPI.Comm) -> Node | None:
    """Return the node of a communicator if it was asked for before; not collective."""
    found = open_channel(comm).known(_Found)
    return None if found is None else found.node


def empty(
    comm: MPI.Comm, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """Return an uninitialised array that the other ranks of the node can read where it is.

    Collectives on such arrays need no copies. Collective over ``comm``. The memory is freed when
    the array is gone on all ranks, at the next call of this function or with the communicator.

    Args:
        comm: the ranks that call; those on one node share the memory.
        shape: of this rank's array; it may differ between ranks.
        dtype: of fixed size.

    Raises:
        TypeError: the dtype holds objects, or ``comm`` is not a communicator.
        ValueError: a dimension is negative, or ``comm`` is MPI.COMM_NULL or an intercommunicator.
        SharedMemoryError: the ranks of a node cannot share so much memory; on all ranks.
    """
    check_comm(comm)
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise TypeError(f"dtype={kind}: holds objects; needs one of a fixed size")
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in lengths):
        raise ValueError(f"shape={shape}: a dimension is negative")
    count = math.prod(lengths)
    memory = open_node(comm).allocate(count * kind.itemsize)
    return memory.view(kind).reshape(lengths) if count else np.empty(lengths, kind)
