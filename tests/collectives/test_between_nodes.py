"""Shared memory inside nodes and messages between them, on nodes that are made up."""

import itertools
import time

import ml_dtypes  # noqa: F401  (registers bfloat16)
import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives import libraries, select, window
from collectives.executors.native import numba_is_there
from tests.collectives.cases import allreduce

pytestmark = pytest.mark.skipif(not numba_is_there(), reason="numba is not installed")


@pytest.fixture(params=[1, 2, 3])
def nodes(request, comm, monkeypatch):
    """So many neighbouring ranks share memory; where they do not divide, the last node is small."""
    monkeypatch.setattr(
        window, "split_by_node", lambda of: of.Split(MPI.COMM_WORLD.rank // request.param)
    )
    return request.param


@pytest.mark.ranks(2, 4, 5, 6, 7, every_mpi=True)
def test_every_length(comm, nodes):
    for n in (0, 1, comm.size - 1, comm.size + 1, 1000, 40_011):
        case = allreduce(comm, n, "float32", "MAX" if n == 1000 else "SUM")
        case.check(executor="shared", again=n > 999)
        case.check(again=n == 1000)
    for dtype in ("bfloat16", "int64"):
        for algorithm in ("ring", "rabenseifner"):
            allreduce(comm, 997, dtype).check(algorithm, "shared")


@pytest.mark.ranks(4, 5, every_mpi=True)
def test_several_in_flight_waited_for_in_any_order(comm, nodes):
    p, r = comm.size, comm.rank
    arrays = [np.zeros(30_011) for _ in range(3)]
    executors = ["shared", "shared", "native"]
    plans = [
        collectives.plan_allreduce(a, comm=comm, executor=e)
        for a, e in zip(arrays, executors, strict=True)
    ]
    orders = list(itertools.permutations(range(3)))
    for k in range(12):
        for i, a in enumerate(arrays):
            a[:] = 10**i * (r + 1) + k
        for plan in plans:
            plan.start()
        if (k + r) % 3 == 0:
            time.sleep(1e-3)
        for i in orders[(2 * r + k) % 6]:
            plans[i].wait()
        for i, a in enumerate(arrays):
            assert (a == 10**i * p * (p + 1) / 2 + k * p).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(4, 5)
def test_runs_back_to_back(comm, nodes):
    x, y = np.zeros(3001), np.zeros(77)
    p, total = comm.size, comm.size * (comm.size - 1) / 2
    for k in range(60):
        x[:], y[:] = comm.rank + k, comm.rank - k
        collectives.allreduce(x, comm=comm, executor="shared")
        collectives.allreduce(y, comm=comm, executor="shared")
        assert (x == total + p * k).all()
        assert (y == total - p * k).all()


@pytest.mark.ranks(4)
def test_whom_a_run_waits_for_and_its_life(comm, nodes):
    x = np.ones(50_000)
    plan = collectives.plan_allreduce(x, comm=comm, executor="shared")
    assert plan.executor == "shared"
    assert plan.test()
    if comm.rank != 3:
        plan.start()
        for _ in range(200):
            if plan.test():
                break
            # At the end the ranks that have come wait, some by way of others, for rank 3.
            assert comm.rank not in plan.waiting_for()
            assert set(plan.waiting_for()) <= set(range(4))
    comm.Barrier()
    if comm.rank == 3:
        plan.start()
    plan.close()
    assert (x == 4).all()
    plan.close()
    with pytest.raises(RuntimeError, match="closed"):
        plan.start()


@pytest.mark.ranks(4)
def test_what_it_cannot_do_is_refused_by_name(comm, nodes):
    x = np.ones(10)
    with pytest.raises(ValueError, match="bcast on several nodes"):
        collectives.bcast(x, comm=comm, executor="shared")
    window_array = collectives.empty(comm, 3000)
    window_array[:] = 1
    collectives.allreduce(window_array, comm=comm, executor="shared")
    assert (window_array == 4).all()


@pytest.mark.ranks(4, 5, every_mpi=True)
def test_what_is_taken_where_nothing_is_asked_for(comm, nodes, monkeypatch):
    monkeypatch.setitem(libraries.BETWEEN, MPI.get_vendor()[0], libraries.Cut(4096))
    monkeypatch.setattr(select, "INCAST_BYTES", 1024)
    select.choose.cache_clear()

    def taken(n, make=collectives.plan_allreduce, executor="auto"):
        with make(np.zeros(n, np.float32), comm=comm, executor=executor) as plan:
            return plan.executor, plan.algorithm

    assert taken(10)[0] == ("native" if nodes == 1 else "shared")
    if nodes == 1:
        # Parts of 12,000 bytes in messages of 4096: the next lower power of two.
        assert taken(3000 * comm.size) == ("native", "ring:segments=2")
        monkeypatch.delitem(libraries.BETWEEN, MPI.get_vendor()[0])
        assert taken(3000 * comm.size)[1].split(":")[0] not in ("direct", "linear")
        assert taken(3000 * comm.size, executor="python")[1].split(":")[0] != "direct"
    for make in (collectives.plan_bcast, collectives.plan_reduce_scatter):
        assert taken(1000 * comm.size, make)[0] == "native"
    select.choose.cache_clear()
