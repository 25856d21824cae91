"""A rank that waits for another notices a signal, and may wait on."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import collectives
from tests.collectives.cases import EXECUTORS

pytestmark = pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")

WAYS = [{"executor": "shared"}, {"executor": "shared", "traffic": True}, {"background": True}]


def run(plan):
    plan.run()


def start_and_wait(plan):
    plan.start()
    plan.wait()


@pytest.fixture
def interrupts(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.ranks(2, 3, every_mpi=True)
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("wait", [run, start_and_wait])
def test_ctrl_c_ends_a_wait_that_may_be_gone_on_with(comm, way, wait, interrupts):
    options = dict(way)
    if "traffic" in way:
        options["traffic"] = collectives.Traffic()
    for make in (np.empty, lambda n, dtype: collectives.empty(comm, n, dtype)):
        for n in (1, 100_000):
            x = make(n, "f8")
            x[:] = comm.rank + 1
            with collectives.plan_allreduce(x, comm=comm, **options) as plan:
                if comm.rank == 0:
                    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                    begin = time.monotonic()
                    with pytest.raises(KeyboardInterrupt):
                        wait(plan)
                    assert time.monotonic() - begin < 2
                    with pytest.raises(RuntimeError, match="runs already"):
                        plan.start()
                    assert plan.waiting_for()
                comm.Barrier()
                if comm.rank == 0:
                    plan.wait()
                else:
                    plan.run()
                total = comm.size * (comm.size + 1) / 2
                assert (x == total).all()
                plan.run()
                assert (x == comm.size * total).all()


@pytest.mark.ranks(2)
def test_a_long_wait_without_a_signal(comm):
    x = np.full(100_000, comm.rank + 1.0)
    traffic = collectives.Traffic()
    with collectives.plan_allreduce(x, comm=comm, executor="shared", traffic=traffic) as plan:
        for _ in range(2):
            if comm.rank:
                time.sleep(0.4)
            plan.run()
    assert (x == 6).all()
    if comm.rank == 0:
        assert 0.7 < traffic.seconds < 3
