"""Plans of single calls are kept, and serve the memory of each."""

import gc

import numpy as np
import pytest

import collectives
from collectives.calls import KEPT, Calls
from collectives.channel import open_channel
from tests.collectives.cases import CASES, EXECUTORS

every_executor = pytest.mark.parametrize("executor", [*EXECUTORS, "auto"])


@pytest.mark.ranks(2, 3, every_mpi=True)
@every_executor
def test_more_kinds_of_calls_than_are_kept(comm, executor):
    p, r = comm.size, comm.rank
    how = {"comm": comm, "executor": executor}
    for k in (*range(1, 60), *range(1, 60, 7)):
        for dtype in ("float32", "int64", "float64"):
            x = np.full(k, r + k, dtype)
            collectives.allreduce(x, **how)
            assert (x == p * (p - 1) // 2 + p * k).all()
            collectives.bcast(x[: k // 2], k % p, **how)
            whole = np.zeros(p * k, dtype)
            collectives.allgather(np.full(k, r, dtype), whole, **how)
            np.testing.assert_array_equal(whole, np.repeat(np.arange(p), k))
    calls = open_channel(comm).known(Calls)
    if executor == "python":
        assert calls is None
    elif executor != "auto" or len(EXECUTORS) > 1:
        assert len(calls._plans) == KEPT


@pytest.mark.ranks(2, 3)
@every_executor
def test_memory_that_is_freed_and_given_out_again(comm, executor):
    p, r = comm.size, comm.rank
    for k in range(100):
        n = 20_000 if k % 2 else 2000
        x = np.full(n, r + k, np.float32)
        got = collectives.allreduce(x, np.empty(n, np.float32), comm=comm, executor=executor)
        assert (got == p * (p - 1) / 2 + p * k).all()
        assert (x == r + k).all()
        a = np.repeat(np.arange(p) * 10 + r + k, 100)
        b = collectives.alltoall(a, np.empty_like(a), comm=comm, executor=executor)
        np.testing.assert_array_equal(b, np.repeat(np.arange(p) + 10 * r + k, 100))
        del x, got, a, b
        if k % 10 == 0:
            gc.collect()


@pytest.mark.ranks(2, 3)
@every_executor
def test_kept_plans_end_with_their_communicator(comm, executor):
    for k in range(30):
        own, other = comm.Dup(), comm.Split(comm.rank % 2)
        x = np.full(40, 1.0)
        collectives.allreduce(x, comm=own, executor=executor)
        collectives.allreduce(x, comm=other, executor=executor)
        if k % 2:
            own.Free()
        y = np.full(40, 1.0)
        collectives.allreduce(y, comm=other, executor=executor)
        collectives.allreduce(y, comm=comm, executor=executor)
        assert (x == comm.size * other.size).all()
        assert (y == sum(comm.allgather(float(other.size)))).all()
        other.Free()
        if not k % 2:
            own.Free()


@pytest.mark.ranks(2, 3)
@every_executor
def test_calls_while_runs_are_in_flight(comm, executor):
    p = comm.size
    cases = [case(comm, 2000, "float32") for case in CASES.values()]
    for case in cases:
        plan, fill, result = case.make(np.empty, executor=executor)
        with plan:
            fill()
            plan.start()
            for other in (*EXECUTORS, "auto"):
                x = np.ones(300)
                collectives.allreduce(x, comm=comm, executor=other)
                assert (x == p).all()
            plan.wait()
            case.compare(result(), case.name)


@pytest.mark.ranks(2, 3, 5, every_mpi=True)
def test_an_op_of_ones_own_again_and_again(comm):
    # Some ranks of a tree do not sum up: they must not keep plans that the others do not keep.
    longest = collectives.Op("LONGEST", lambda xp, a, b, out: xp.maximum(a, b, out=out))
    p, r = comm.size, comm.rank
    for k in range(3):
        for algorithm in ("auto", "linear"):
            x = np.full(2, float(r + k))
            collectives.reduce(x, None, longest, comm=comm, algorithm=algorithm)
            assert r or (x == p - 1 + k).all()
            x = np.full(2, float(r + k))
            collectives.allreduce(x, op=longest, comm=comm, algorithm=algorithm)
            assert (x == p - 1 + k).all()
            x = np.arange(p, dtype=np.float64) * k + r
            collectives.reduce_scatter(x, op=longest, comm=comm, algorithm=algorithm)
            assert x[r] == r * k + p - 1
        with collectives.plan_reduce(x, longest, comm=comm) as plan:
            assert plan.executor == "python"
        collectives.barrier(comm=comm)
