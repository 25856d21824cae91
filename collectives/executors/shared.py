"""Collectives of ranks that share memory: no messages at all.

Data that lie in a window of the node (see `collectives.window.empty`) are read where they are;
other data are passed through slots of the node, in pieces that stay in a core's cache.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.blocks import share
from collectives.channel import BROKEN, open_channel
from collectives.executors import fields as f
from collectives.executors.native import NotNative, check_numba
from collectives.executors.turns import TurnPlan
from collectives.traffic import Traffic
from collectives.window import RESULTS_AT, SLOT_BYTES, SLOTS_AT, known_node, open_node

if TYPE_CHECKING:
    from collectives.bind import Job
    from collectives.window import Node

DIRECT_BYTES = 4096
"""Shorter data are passed through slots also where they lie in windows: one step, not two."""

PIECE_BYTES = 1 << 16
"""Length of a piece, where the data are longer than that."""

SLICED_BYTES = 1 << 15
"""From this length on, with more than two ranks, each reduces a slice."""

_BLOCK = 256
"""Elements that are reduced at a time: the fewer, the less does memory stand still while what was
read is copied on. With 4096, 64 MiB in windows took 1.1 to 1.4 times as long."""


class SharedPlan(TurnPlan):
    """A collective bound to memory, for ranks that are all on one node.

    Args:
        job: what to do, and on which arrays.
        comm: a communicator whose ranks all share memory.
        traffic: counters to add to: no messages, but the bytes that others take.
        direct: whether to look if all data lie in windows; the same on all ranks.
        node: where its runs take turns; None: that of the communicator.

    Raises:
        NotNative: it cannot do this, the ranks are on several nodes, or numba is not installed.
        SharedMemoryError: the ranks cannot share memory.
    """

    executor = "shared"
    can_rebind = True
    algorithm = "direct"

    def __init__(
        self,
        job: Job,
        comm: MPI.Comm,
        traffic: Traffic | None = None,
        *,
        direct: bool = True,
        node: Node | None = None,
    ) -> None:
        check_numba()
        node = node or open_node(comm)
        if not node.whole:
            raise NotNative("the ranks are on several nodes")
        check_shared(job)
        super().__init__(open_channel(comm), node, traffic)
        from collectives.executors import together

        self._job: Job | None = job  # keeps the arrays alive
        self._state, self._kept = _state(job, node, direct)
        self._state[f.PLAN] = self.number
        self.scratch_bytes = sum(k.nbytes for k in self._kept)
        self.bytes_sent = _passed(job, node)
        self._address = int(self._state.ctypes.data)
        self._go = together.run
        self._in_flight = self._channel.in_flight
        self._DONE, self._OUT_OF_TURN = together.DONE, together.OUT_OF_TURN
        self._open()

    def rebind(self, *regions: npt.NDArray[Any]) -> None:
        """Run on other arrays of the same lengths from now on.

        The plan holds no reference to them: they must live as long as it runs.

        Raises:
            RuntimeError: the plan is closed or under way, or its communicator was freed, or can no
                longer be used.
        """
        if self._closed or self._in_flight:
            self._check_idle("rebind")
        _bind(self._state, self._node, regions[0], regions[-1])
        self._job = None

    def run(self) -> None:
        """Start and wait: one compiled call where no other run is in flight.

        Raises:
            RuntimeError: the plan is closed or runs already, or its communicator was freed, or can
                no longer be used; or another rank started runs in another order, and waits for one
                that was not started here.
        """
        if self._closed or self._running or self._in_flight:
            super().run()
            return
        try:
            if self._traffic is None:
                if (said := self._go(self._address)) != self._DONE:
                    self._go_on(said)
            else:
                begin = time.perf_counter()
                if (said := self._go(self._address)) != self._DONE:
                    self._go_on(said, time.perf_counter() - begin)
                else:
                    self._traffic.add(0, self.bytes_sent, time.perf_counter() - begin)
        except BaseException as error:
            self._in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def advance(self, *, may_wait: bool) -> bool:
        """Go on with this run, whose turn it is; return whether it is finished."""
        self._state[f.MAY_WAIT] = may_wait
        said = self._go(self._address)
        self._state[f.MAY_WAIT] = 1
        if said == self._OUT_OF_TURN:
            self._node.put_first(int(self._state[f.DUE]))
        return bool(said == self._DONE)

    def _go_on(self, said: int, seconds: float = 0.0) -> None:
        if said == self._OUT_OF_TURN:
            self._node.put_first(int(self._state[f.DUE]))
            super().run()
        else:
            # It has waited for long: from here on as one that was started.
            self._seconds = seconds
            self._running = True
            self._node.add(self)
            self.wait()

    def waiting_for(self) -> list[int]:
        """Return the ranks that have not come as far as this one; [] where it does not wait."""
        return self._node.behind() if self._running else []


def check_shared(job: Job) -> None:
    """Check that a job can be done in shared memory, as far as this rank knows.

    Raises:
        NotNative: it cannot.
    """
    from collectives.executors.kernels import has_kernels

    for array in (job.source, job.target):
        if array is not None and not isinstance(array, np.ndarray):
            raise NotNative("memory on a device")
    if job.straight:
        raise NotNative("parts whose lengths no rank knows all of")
    if job.reduces:
        dtype = job.array.dtype
        if not (job.op.is_built_in and has_kernels(dtype, job.op.name)):
            raise NotNative(f"{job.op.name} of {dtype}")


def _passed(job: Job, node: Node) -> int:
    """Return the bytes that the other ranks take from this one, each once: those of "direct"."""
    name, size, rank = job.collective.name, node.size, node.rank
    if name == "barrier":
        return 0
    whole, item = int(job.array.nbytes), int(job.array.dtype.itemsize)
    part = (job.bounds[rank + 1] - job.bounds[rank]) * item if len(job.bounds) else 0
    if name == "allreduce":
        start, stop = share(whole // item, rank, size)
        return whole + (size - 2) * (stop - start) * item  # its data, and what it has summed up
    if name in ("bcast", "reduce"):
        takers = size - 1 if name == "bcast" else 1
        return whole * takers if (rank == job.root) == (name == "bcast") else 0
    if name == "allgather":
        return (size - 1) * part
    if name == "gather":
        return part if rank != job.root else 0
    gives_all = name != "scatter" or rank == job.root
    return (job.bounds[-1] - job.bounds[0]) * item - part if gives_all else 0


def _state(job: Job, node: Any, direct: bool) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return the state of a run, and the arrays that it points to."""
    from collectives.executors.kernels import OPERATIONS, REVERSED, kernels_of

    name, size, rank = job.collective.name, node.size, node.rank
    source = job.source if job.source is not None else job.target
    target = job.target if job.target is not None else source
    item = int(source.dtype.itemsize)
    # In bytes: what goes to each rank, what comes from each, and where that lies at the giver.
    bounds = [b * item for b in job.bounds]
    parts = [stop - start for start, stop in pairwise(bounds)]
    none = [0] * size
    to_each = name in ("reduce_scatter", "alltoall", "scatter")
    if to_each:
        send_at, send_bytes = bounds[:-1], parts
        peer_at = [bounds[rank]] * size
        longest = max(parts)
        if name == "alltoall":
            take_at = [b * item for b in job.target_bounds[:-1]]
            take_bytes = [parts[rank]] * size
        else:
            at = bounds[rank] if name == "reduce_scatter" else 0
            take_at, take_bytes = [at] * size, [parts[rank]] * size
    elif name in ("allgather", "gather"):
        own = bounds[rank] if name == "allgather" else 0
        send_at, send_bytes = [own, *none[1:]], [parts[rank], *none[1:]]
        take_at, take_bytes = bounds[:-1], parts
        peer_at = bounds[:-1] if name == "allgather" else none
        longest = max(parts)
    else:
        longest = 0 if name == "barrier" else source.nbytes
        send_at, send_bytes = none, [longest] * size
        take_at, take_bytes, peer_at = none, [longest] * size, none
    piece = min(PIECE_BYTES, SLOT_BYTES // size if to_each else SLOT_BYTES) // 64 * 64
    state = np.zeros(f.FIELDS, np.int64)
    kept: list[Any] = []

    def keep(values: Any) -> int:
        kept.append(np.ascontiguousarray(values, np.int64))
        return int(kept[-1].ctypes.data)

    state[f.SEQUENCE] = node.sequence.ctypes.data
    state[f.MAY_WAIT] = 1
    state[f.SIZE], state[f.RANK], state[f.SPIN] = size, rank, node.spin
    state[f.SEGMENTS] = node.segments.ctypes.data
    state[f.SLOTS_AT], state[f.RESULTS_AT], state[f.SLOT_BYTES] = SLOTS_AT, RESULTS_AT, SLOT_BYTES
    state[f.CLOCK] = keep([0, 0])
    state[f.TABLE] = node.table_at.ctypes.data
    state[f.DIRECT] = direct and job.nbytes >= DIRECT_BYTES and name != "barrier"
    state[f.ALLREDUCE] = name == "allreduce"
    state[f.SLICED] = name == "allreduce" and size > 2 and longest >= SLICED_BYTES
    state[f.REDUCES], state[f.TO_EACH] = job.reduces, to_each
    state[f.GIVER] = job.root if name in ("bcast", "scatter") else -1
    state[f.TAKER] = job.root if name in ("reduce", "gather") else -1
    state[f.OWN] = name in ("alltoall", "gather", "scatter")
    state[f.ITEM], state[f.PIECE_BYTES] = item, piece
    state[f.PIECES] = max(1, -(-longest // piece))
    if job.reduces:
        kernels = kernels_of(source.dtype.name)
        number = OPERATIONS.index(job.op.name)
        state[f.OPERATION], state[f.REVERSED] = number, REVERSED[number]
        state[f.REDUCE], state[f.ACCUMULATE] = kernels.reduce, kernels.accumulate
        state[f.WIDEN], state[f.NARROW] = kernels.widen, kernels.narrow
        scratch = np.empty(_BLOCK * kernels.wide, np.uint8)
        kept.append(scratch)
        state[f.SCRATCH], state[f.BLOCK] = scratch.ctypes.data, _BLOCK
    state[f.SEND_AT], state[f.SEND_BYTES] = keep(send_at), keep(send_bytes)
    state[f.TAKE_AT], state[f.TAKE_BYTES] = keep(take_at), keep(take_bytes)
    state[f.PEER_AT] = keep(peer_at)
    _bind(state, node, source, target)
    return state, kept


def _bind(
    state: npt.NDArray[np.int64], node: Any, source: npt.NDArray[Any], target: npt.NDArray[Any]
) -> None:
    read, written = source.ctypes.data, target.ctypes.data
    window, offset = node.find(source) if state[f.DIRECT] else (-1, 0)
    # With no call in between, and so no handler of a signal that might raise: all, or nothing.
    state[f.SOURCE], state[f.TARGET] = read, written
    state[f.WINDOW], state[f.OFFSET] = window, offset


def lies_in_window(comm: MPI.Comm, arrays: Sequence[Any]) -> bool:
    """Return whether all these arrays of this rank lie in windows of its node."""
    node = known_node(comm)
    return node is not None and all(node.find(a)[0] >= 0 for a in arrays)
