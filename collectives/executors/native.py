"""Run a schedule without Python in between: one compiled call from the first message to the last.

It calls the MPI library's own functions, through the handles that mpi4py has, and needs neither a
compiler nor MPI's headers. The interpreter's lock is not held meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.blocks import Blocks
from collectives.bound import BoundPlan
from collectives.channel import BROKEN, check_comm, give_way, open_channel
from collectives.executors.layout import MESSAGE_BYTES, Stage, lay_out
from collectives.launch import libmpi_path
from collectives.op import SUM, Op
from collectives.step import Round
from collectives.traffic import Traffic

if TYPE_CHECKING:
    from collectives.bind import Job

MOST_BYTES = (1 << 31) - 1
"""Longer messages need other functions than those which every MPI has."""


class NotNative(ValueError):
    """A schedule that the native executor cannot run; the message says why."""


def check_numba() -> None:
    """Check that numba is installed.

    Raises:
        NotNative: it is not.
    """
    if not numba_is_there():
        raise NotNative('needs numba: pip install "hpcdl[native]"')


@functools.lru_cache(maxsize=1)
def numba_is_there() -> bool:
    """Return whether numba is installed, without importing it."""
    return importlib.util.find_spec("numba") is not None


def can_run(job: Job) -> bool:
    """Return whether it can do a job, whatever the algorithm: the same on all ranks.

    A schedule without a sum would run on some ranks also where the others have to sum up what it
    has no kernel for.
    """
    arrays = [a for a in (job.source, job.target) if a is not None]
    if not (numba_is_there() and all(isinstance(a, np.ndarray) for a in arrays)):
        return False
    if not job.reduces:
        return True
    from collectives.executors.kernels import has_kernels

    return job.op.is_built_in and has_kernels(job.array.dtype, job.op.name)


class NativePlan(BoundPlan):
    """A schedule bound to memory and to a communicator.

    Args:
        rounds: the rounds of this rank (see `collectives.step`).
        blocks: where the blocks lie: contiguous arrays on the host.
        comm: an intracommunicator.
        op: what ``Reduce`` does: SUM, PROD, MIN or MAX.
        traffic: counters to add messages, bytes and seconds to.
        message_bytes: messages longer than this are cut in parts.
        tag: of its messages (see `Channel.call_tag`); None: one of its own.
        regions: contiguous arrays that may be exchanged for others by `rebind`.

    Raises:
        NotNative: it cannot run this, or numba is not installed.
    """

    executor = "native"
    can_rebind = True

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
        regions: Sequence[npt.NDArray[Any]] = (),
    ) -> None:
        check_comm(comm)
        check_numba()
        if message_bytes > MOST_BYTES:
            raise NotNative(f"message_bytes={message_bytes}: needs at most {MOST_BYTES}")
        stages, scratch = lay_out(rounds, blocks, comm.Get_rank(), message_bytes)
        self.scratch_bytes = sum(area.nbytes for area in scratch)
        self._memory: Any = regions
        self._kept: list[Any] = list(scratch)
        rows, reduction, self._peers = _compile(stages, op, regions, self._kept)
        from collectives.executors import program

        sent = [m for s in stages for m in s.messages if m.send]
        self.messages = sum(len(m.parts) for m in sent)
        self.bytes_sent = sum(m.nbytes for m in sent)
        self._traffic = traffic
        self._channel = open_channel(comm)
        self._in_flight = self._channel.in_flight
        self._counted = tag is None
        self._tag = self._channel.take_tag() if tag is None else tag
        slots = max([r[8] for r in rows if r[0] == program.WAIT], default=0)
        self._program = np.array(rows, np.int64)
        self._bases = np.array([0, *(r.ctypes.data for r in regions)], np.int64)
        self._requests = np.zeros(slots + 1, np.int64)
        self._statuses = np.zeros(8 * (slots + 1), np.int64)  # no MPI's status has more bytes
        state = np.zeros(program.FIELDS, np.int64)
        state[program.PROGRAM] = self._program.ctypes.data
        state[program.BASES] = self._bases.ctypes.data
        state[program.REQUESTS] = self._requests.ctypes.data
        state[program.REQUEST_BYTES] = MPI._sizeof(MPI.Request)
        state[program.STATUSES] = self._statuses.ctypes.data
        state[program.COMM] = _handle(self._channel.comm)
        state[program.BYTE] = _handle(MPI.BYTE)
        state[program.TAG] = self._tag
        state[[program.OPERATION, program.REVERSED, program.KERNEL]] = reduction
        for field, name in (
            (program.SENDRECV, "MPI_Sendrecv"),
            (program.ISEND, "MPI_Isend"),
            (program.IRECV, "MPI_Irecv"),
            (program.WAITALL, "MPI_Waitall"),
            (program.TESTALL, "MPI_Testall"),
        ):
            state[field] = mpi_function(name)
        state[program.MAY_WAIT] = 1
        self._state = state
        self._address = int(state.ctypes.data)
        self._go: Callable[[int], int] = program.run
        self._NEXT, self._MAY_WAIT = program.NEXT, program.MAY_WAIT
        self._open()

    def rebind(self, *regions: npt.NDArray[Any]) -> None:
        """Run on other arrays from now on: of the same lengths as the regions that it was made on.

        The plan holds no reference to them: they must live as long as it runs.

        Raises:
            RuntimeError: the plan is closed or under way, or its communicator was freed, or can no
                longer be used.
        """
        if self._closed or self._in_flight:
            self._check_idle("rebind")
        try:
            for i, region in enumerate(regions, 1):
                self._bases[i] = region.__array_interface__["data"][0]
            self._memory = None
        except BaseException as error:
            self._in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def run(self) -> None:
        """Start and wait: one compiled call where no other run is in flight.

        Raises:
            RuntimeError: the plan is closed or runs already, or its communicator was freed, or can
                no longer be used.
            MPI.Exception: MPI failed.
        """
        if self._in_flight or self._closed or self._running:
            super().run()
            return
        try:
            if self._traffic is None:
                if self._go(self._address) < 0:
                    raise self.error()
            else:
                begin = time.perf_counter()
                if self._go(self._address) < 0:
                    raise self.error()
                self._traffic.add(self.messages, self.bytes_sent, time.perf_counter() - begin)
        except BaseException as error:
            self._in_flight.setdefault(BROKEN, self)
            self._channel.break_off(self, error)
            raise

    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all rounds are done."""
        return self._tag not in self._in_flight or self._progress(may_wait=False)

    def waiting_for(self) -> list[int]:
        """Return the ranks of the messages of the round that it waits in; [] where it does not."""
        return self._peers.get(int(self._state[self._NEXT]), [])

    @property
    def state(self) -> int:
        """The address of its state, for a thread that runs it; see `collectives.executors.program`.

        While it does, nothing else may be done with the plan.
        """
        return self._address

    def hand_over(self) -> None:
        """Let runs not wait inside MPI from now on: they are a background thread's."""
        self._state[self._MAY_WAIT] = 0

    def error(self) -> MPI.Exception:
        """Return what went wrong in a run."""
        from collectives.executors import program

        return MPI.Exception(int(self._state[program.ERROR]))

    def _begin(self) -> None:
        self._in_flight.setdefault(self._tag, self)
        self._progress(may_wait=False)

    def _complete(self) -> None:
        while self._tag in self._in_flight and len(self._in_flight) > 1:
            self._channel.progress(None)
            give_way()
        if self._tag in self._in_flight:
            self._progress(may_wait=True)

    def _release(self) -> None:
        if self._counted:
            self._channel.give_back(self._tag)

    def _progress(self, *, may_wait: bool) -> bool:
        self._state[self._MAY_WAIT] = may_wait
        said = self._go(self._address)
        self._state[self._MAY_WAIT] = 1
        if said < 0:
            raise self.error()
        if said:
            # It needs no help any more; the caller still waits for it, but others need not.
            self._in_flight.pop(self._tag, None)
        return bool(said)


def _handle(thing: MPI.Comm | MPI.Datatype) -> int:
    """Return the handle of MPI as a signed number of 64 bits: an int, or a pointer."""
    return int(np.uint64(MPI._handleof(thing) & 0xFFFFFFFFFFFFFFFF).astype(np.int64))


@functools.cache
def mpi_function(name: str) -> int:
    """Return the address of a function of the MPI library that mpi4py uses."""
    function = getattr(ctypes.CDLL(libmpi_path()), name)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _compile(
    stages: Sequence[Stage], op: Op, regions: Sequence[npt.NDArray[Any]], kept: list[Any]
) -> tuple[list[list[int]], tuple[int, int, int], dict[int, list[int]]]:
    """Return the rows of the program, its reduction, and whom each WAIT waits for.

    The reduction is its OPERATION, REVERSED and KERNEL.
    """
    from collectives.executors import program
    from collectives.executors.kernels import OPERATIONS, REVERSED, has_kernels, kernels_of

    where = functools.partial(_place, regions, kept)
    rows: list[list[int]] = []
    reduction = 0, 0, 0
    peers: dict[int, list[int]] = {}
    for stage in stages:
        if stage.device is not None:
            raise NotNative("memory on a device")
        rows += [[program.COPY, *where(to), 0, *where(frm), 0] for frm, to in stage.copies]
        posts, before, after = _posts(stage, where)
        rows += before
        out, into = ([p for p in posts if p[0] == kind] for kind in (program.SEND, program.RECEIVE))
        if len(out) == len(into) == 1:
            rows.append([program.EXCHANGE, *out[0][1:5], *into[0][1:5]])
        else:
            rows += [[*p[:8], slot] for slot, p in enumerate([*into, *out])]
        if posts:
            peers[len(rows)] = sorted({p[4] for p in posts})
            rows.append([program.WAIT, 0, 0, 0, 0, 0, 0, 0, len(posts)])
        rows += [[program.CLEAR, *where(view), 0, 0, 0, 0, 0] for view in stage.zeros]
        rows += after
        for a in stage.arrivals:
            if not a.reduce:
                rows.append([program.COPY, *where(a.view), 0, *where(a.buffer), 0])
                continue
            if not (op.is_built_in and has_kernels(a.view.dtype, op.name)):
                raise NotNative(f"{op.name} of {a.view.dtype}")
            number = OPERATIONS.index(op.name)
            reduction = number, REVERSED[number], kernels_of(a.view.dtype.name).reduce
            place = [*where(a.view)[:2], a.view.size, 0]
            rows.append([program.REDUCE, *place, *where(a.buffer), int(a.lower)])
    rows.append([program.END] + [0] * (program.WIDTH - 1))
    return rows, reduction, peers


def _posts(stage: Stage, where: Callable[[Any], tuple[int, int, int]]) -> Any:
    """Return the rows that post a stage's messages, and the copies before and after them."""
    from collectives.executors import program

    posts: list[list[int]] = []
    before: list[list[int]] = []
    after: list[list[int]] = []
    for message in stage.messages:
        for part in message.parts:
            data = part[0]
            if len(part) > 1:
                # MPI sees one piece: gathered before it goes, scattered when it has come.
                data = np.empty(sum(d.size for d in part), np.uint8)
                at = 0
                for d in part:
                    here, there = where(data[at : at + d.size]), where(d)
                    at += d.size
                    if message.send:
                        before.append([program.COPY, *here, 0, *there, 0])
                    else:
                        after.append([program.COPY, *there, 0, *here, 0])
            kind = program.SEND if message.send else program.RECEIVE
            posts.append([kind, *where(data), message.peer, 0, 0, 0, 0])
    return posts, before, after


def _place(
    regions: Sequence[npt.NDArray[Any]], kept: list[Any], array: Any
) -> tuple[int, int, int]:
    """Return the region, the offset and the length in bytes of an array.

    Region 0 is all memory; arrays that lie in no other are added to ``kept``.
    """
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise NotNative("memory that is not contiguous, or on a device")
    address = int(array.ctypes.data)
    for i, region in enumerate(regions, 1):
        base = int(region.ctypes.data)
        if base <= address and address + array.nbytes <= base + region.nbytes and array.nbytes:
            return i, address - base, array.nbytes
    kept.append(array)
    return 0, address, array.nbytes
