"""Run a plan in a thread of its own, while Python computes.

A thread of Python that polls takes the interpreter's lock from the computation, over and over. This
one runs compiled code from its start to its end: it never asks for the lock, sleeps on a semaphore
while there is nothing to do, and for a moment whenever a message has not come yet. So it costs next
to nothing while the network works. What it cannot do is to make copies cheaper: inside a node, on
cores that all compute, there is nothing to gain.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from collectives.bound import BoundPlan
from collectives.channel import Channel
from collectives.executors.native import NativePlan
from collectives.traffic import Traffic

PAUSE = 20
"""Microseconds of sleep. Shorter ones cost time on the core; longer ones delay the next round."""


class BackgroundPlan(BoundPlan):
    """A native plan that makes progress by itself between `start` and `wait`.

    One thread looks after all runs of a communicator, which are under way at the same time.

    Args:
        plan: what to run; it is closed with this one.
        channel: of its communicator.
        traffic: counters to add to; the seconds are those from `start` to the end of `wait`.
    """

    executor = "native"

    def __init__(self, plan: NativePlan, channel: Channel, traffic: Traffic | None = None) -> None:
        from collectives.executors import program

        self._plan = plan
        self._channel = channel
        plan.hand_over()
        self._traffic = traffic
        self._worker = channel.companion(_Worker, _Worker)
        self._job = np.zeros(program.JOB_FINISHED + program.SEMAPHORE, np.int64)
        self._job[program.JOB_STATE] = plan.state
        self._address = int(self._job.ctypes.data)
        _make_semaphore(self._address + 8 * program.JOB_FINISHED)
        self._wait_for = program.wait_for
        self._RESULT, self._DONE = program.JOB_RESULT, program.JOB_DONE
        self._since = 0.0
        self.algorithm = plan.algorithm
        self.messages, self.bytes_sent = plan.messages, plan.bytes_sent
        self.scratch_bytes = plan.scratch_bytes
        self._open()

    def progress(self) -> bool:
        """Return whether the run is finished: it needs no help."""
        return not self._running or bool(self._job[self._DONE])

    def waiting_for(self) -> list[int]:
        """Return the ranks of the messages of the round that it waits in."""
        return self._plan.waiting_for()

    def _begin(self) -> None:
        self._since = perf_counter()
        self._job[self._DONE] = 0
        self._worker.plans.add(self)
        self._worker.put(self._address)

    def _complete(self) -> None:
        """Nothing: `_finish` waits."""

    def _finish(self) -> None:
        # For the semaphore in any case: it is the last that the thread touches of the job's memory.
        while self._wait_for(self._address):
            pass
        self._worker.plans.discard(self)
        if self._job[self._RESULT] < 0:
            raise self._plan.error()
        self._seconds = perf_counter() - self._since
        super()._finish()

    def _release(self) -> None:
        self._plan.close()


class _Worker:
    """The thread of a communicator, and the ring of the runs that wait for it.

    Attributes:
        plans: those that it runs; they are kept alive, since it and MPI write to their memory.
    """

    def __init__(self) -> None:
        from collectives.executors import program

        self.plans: set[BackgroundPlan] = set()
        self._semaphore, self._length = program.SEMAPHORE, program.QUEUE
        self._mailbox = np.zeros(program.MAILBOX, np.int64)
        self._address = int(self._mailbox.ctypes.data)
        self._count = 0
        self._post: Any = ctypes.CDLL(None).sem_post
        _make_semaphore(self._address)
        self._serve: Callable[[int, int], int] = program.serve
        self._thread = threading.Thread(target=self._run, name="collectives", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # A method: so the mailbox lives as long as the thread, whatever becomes of its maker.
        self._serve(self._address, PAUSE)

    def put(self, job: int) -> None:
        # A plan runs once at a time, and a communicator has fewer plans than the ring has places.
        self._mailbox[self._semaphore + self._count % self._length] = job
        self._count += 1
        self._post(ctypes.c_void_p(self._address))

    def close(self) -> None:
        self.put(0)
        self._thread.join()


def _make_semaphore(address: int) -> None:
    if ctypes.CDLL(None).sem_init(ctypes.c_void_p(address), 0, 0):
        raise OSError("sem_init: this system has no semaphores")
