"""Runs that a thread makes progress for."""

import ctypes
import time

import numpy as np
import pytest

import collectives
from tests.collectives.cases import EXECUTORS

pytestmark = pytest.mark.skipif("native" not in EXECUTORS, reason="numba is not installed")


@pytest.mark.ranks(3, every_mpi=True)
def test_ranks_may_start_runs_in_any_order(comm):
    arrays = [np.empty(1000 * k + 1) for k in range(4)]
    plans = [collectives.plan_allreduce(x, comm=comm, background=True) for x in arrays]
    for k in range(3):
        for i, x in enumerate(arrays):
            x[:] = comm.rank + i + k
        for plan in plans[comm.rank :] + plans[: comm.rank]:
            plan.start()
        for plan in plans[::-1] if comm.rank else plans:
            while comm.rank == 2 and not plan.test():
                time.sleep(1e-4)
            plan.wait()
        for i, x in enumerate(arrays):
            assert (x == 3 + 3 * (i + k)).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(2, every_mpi=True)
def test_a_plan_that_is_dropped_under_way_waits_for_nobody(comm):
    x = np.full(100_000, comm.rank + 1.0)
    plan = collectives.plan_allreduce(x, comm=comm, background=True)
    if comm.rank == 0:
        plan.start()
        begin = time.monotonic()
        del plan
        assert time.monotonic() - begin < 1
        comm.send(None, 1)
    else:
        comm.recv(source=0)
        plan.run()
        assert (x == 3).all()
    comm.Barrier()
    assert (collectives.allreduce(np.ones(3), comm=comm, background=True) == 2).all()


@pytest.mark.ranks(3)
def test_an_exchange_with_neighbours(comm):
    up, down = (comm.rank + 1) % 3, (comm.rank - 1) % 3
    x, y = np.full(100_000, comm.rank + 1.0), np.empty(100_000)
    traffic = collectives.Traffic()
    options = {"comm": comm, "background": True, "traffic": traffic}
    with collectives.plan_neighbor([x], [up], [y], [down], **options) as plan:
        plan.start()
        while not plan.progress():  # without help
            time.sleep(1e-3)
        plan.wait()
    assert (y == down + 1).all()
    assert (traffic.messages, traffic.bytes) == (1, 800_000)
    with pytest.raises(ValueError, match="background=True: needs the executor native, not python"):
        collectives.plan_neighbor([x], [up], [y], [down], executor="python", **options)


def test_as_many_runs_may_wait_as_there_are_plans():
    from collectives.channel import CALL_TAGS, TAGS
    from collectives.executors import program

    assert TAGS + CALL_TAGS < program.QUEUE
    libc = ctypes.CDLL(None)
    end = np.zeros(program.WIDTH, np.int64)  # a program that has nothing to do
    bases = np.zeros(1, np.int64)
    state = np.zeros(program.FIELDS, np.int64)
    state[program.PROGRAM], state[program.BASES] = end.ctypes.data, bases.ctypes.data
    count = program.QUEUE - 1
    jobs = np.zeros((count, program.JOB_FINISHED + program.SEMAPHORE), np.int64)
    jobs[:, program.JOB_STATE] = state.ctypes.data
    mailbox = np.zeros(program.MAILBOX, np.int64)
    addresses = jobs.ctypes.data + jobs.strides[0] * np.arange(count)
    mailbox[program.SEMAPHORE : program.SEMAPHORE + count] = addresses
    # Behind them is 0: the end.
    assert libc.sem_init(ctypes.c_void_p(mailbox.ctypes.data), 0, count + 1) == 0
    for address in addresses.tolist():
        assert libc.sem_init(ctypes.c_void_p(address + 8 * program.JOB_FINISHED), 0, 0) == 0
    program.serve(int(mailbox.ctypes.data), 1)
    assert (jobs[:, program.JOB_DONE] == 1).all()
    assert all(program.wait_for(address) == 0 for address in addresses.tolist())
