"""Many runs, one after the other or at once, and in different orders on different ranks."""

import gc
import itertools
import time

import numpy as np
import pytest

import collectives
from collectives import channel
from tests.collectives.cases import (
    EXECUTORS,
    SCHEDULED,
    allgather,
    allreduce,
    alltoall,
    bcast,
    reduce_scatter,
)

ALGORITHMS = ["ring", "tree", "recursive_doubling", "rabenseifner"]

every_executor = pytest.mark.parametrize("executor", [*EXECUTORS, "auto"])


@pytest.mark.ranks(2, 3, 5, every_mpi=True)
@every_executor
def test_runs_back_to_back_while_ranks_dawdle(comm, executor):
    """Memory that is reused too early shows as data of another run."""
    same = np.random.default_rng(5)
    own = np.random.default_rng([7, comm.rank])
    shared = "shared" in EXECUTORS and executor in ("shared", "auto")
    allocs = [np.empty]
    if shared:
        allocs.append(lambda n, dtype: collectives.empty(comm, n, dtype))
    cases = [
        case(comm, n, "float64", **more)
        for n in (1, 300, 6000)
        for case, more in (
            (allreduce, {}),
            (bcast, {"root": n % comm.size}),
            (allgather, {}),
            (reduce_scatter, {}),
        )
    ] + [alltoall(comm, 50, "int32"), allreduce(comm, 30_000, "float32")]
    made = [(c, *c.make(alloc, executor=executor)) for c in cases for alloc in allocs]
    for k in range(500):
        case, plan, fill, result = made[same.integers(len(made))]
        fill()
        if own.random() < 0.02:
            time.sleep(own.random() * 2e-3)
        if k % 3:
            plan.run()
        else:
            plan.start()
            plan.wait()
        case.compare(result(), f"{case.name} {executor}, run {k}")
    for _, plan, _, _ in made:
        plan.close()


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
@pytest.mark.parametrize(
    "executors", [[e] * 3 for e in EXECUTORS] + [[*EXECUTORS, "auto", "auto"][:3]]
)
def test_plans_may_be_waited_for_in_another_order_on_each_rank(comm, executors):
    """And be started in another."""
    p, r = comm.size, comm.rank
    arrays = [np.zeros(20_003) for _ in range(3)]
    plans = [
        collectives.plan_allreduce(a, comm=comm, executor=e)
        for a, e in zip(arrays, executors, strict=True)
    ]
    orders = list(itertools.permutations(range(3)))
    for k in range(12):
        for i, a in enumerate(arrays):
            a[:] = 10**i * (r + 1) + k
        for i in orders[(r + k) % 6]:
            plans[i].start()
        for i in orders[(2 * r + k) % 6]:
            plans[i].wait()
        for i, a in enumerate(arrays):
            assert (a == 10**i * p * (p + 1) / 2 + k * p).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_schedules_may_be_waited_for_in_another_order_on_each_rank(comm, algorithm):
    p, r = comm.size, comm.rank
    x, y = np.zeros(5003), np.zeros(5003)
    plans = [
        collectives.plan_allreduce(a, comm=comm, algorithm=algorithm, executor=e)
        for a, e in ((x, SCHEDULED[0]), (y, SCHEDULED[-1]))
    ]
    for k in range(6):
        x[:], y[:] = r + k, 10 * r + k
        for plan in plans[:: 1 - 2 * ((r + k) % 2)]:
            plan.start()
        for plan in plans[:: 1 - 2 * (r % 2)]:
            plan.wait()
        assert (x == p * (p - 1) / 2 + p * k).all()
        assert (y == 10 * p * (p - 1) / 2 + p * k).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(EXECUTORS, 2)))
def test_who_waits_for_one_run_helps_another_on(comm, one, other):
    """Rank 0 waits for what the others start only when they have finished the other."""
    x, y = np.ones(100_003), np.ones(100_003)
    with (
        collectives.plan_allreduce(x, comm=comm, executor=one) as first,
        collectives.plan_allreduce(y, comm=comm, executor=other) as second,
    ):
        if comm.rank == 0:
            first.start()
            second.start()
            first.wait()
            second.wait()
        else:
            second.start()
            second.wait()
            first.start()
            first.wait()
    assert (x == comm.size).all()
    assert (y == comm.size).all()


@pytest.mark.ranks(2, 3)
@pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")
def test_a_wait_for_a_run_in_shared_memory_that_was_not_started_is_an_error(comm):
    x, y = np.ones(100), np.ones(100)
    with (
        collectives.plan_allreduce(x, comm=comm, executor="shared") as first,
        collectives.plan_allreduce(y, comm=comm, executor="shared") as second,
    ):
        if comm.rank == 0:
            first.start()
            second.start()
        elif comm.rank == 1:
            second.start()
            with pytest.raises(RuntimeError, match="rank 1 of the node waits for a run of plan 2"):
                second.wait()
            first.start()
        else:
            second.start()
            while not second.test() and second.waiting_for():
                time.sleep(0)
            first.start()
        for plan in (second, first):
            plan.wait()
    assert (x == comm.size).all()
    assert (y == comm.size).all()


@pytest.mark.ranks(2, 3)
@every_executor
def test_a_plan_that_is_dropped_in_flight_still_finishes(comm, executor):
    """Its memory must stay: others write to it, or read it."""
    kept = np.ones(20000)
    for _ in range(5):
        plan = collectives.plan_allreduce(np.ones(20000), comm=comm, executor=executor)
        plan.start()
        del plan
        gc.collect()
        collectives.allreduce(kept, comm=comm, executor=executor)
    assert (kept == comm.size**5).all()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("executor", SCHEDULED)
def test_tags_of_open_plans_are_not_given_out_again(comm, monkeypatch, executor):
    monkeypatch.setattr(channel, "TAGS", 50)
    own = comm.Dup()
    how = {"comm": own, "executor": executor}
    x, y = np.zeros(100), np.zeros(100)
    first = collectives.plan_allreduce(x, algorithm="ring", **how)
    for _ in range(200):
        collectives.plan_allreduce(np.ones(3), **how).close()
    second = collectives.plan_allreduce(y, algorithm="ring", **how)
    x[:], y[:] = 1, 10
    for plan in (first, second) if comm.rank else (second, first):
        plan.start()
    first.wait()
    second.wait()
    assert (x == comm.size).all()
    assert (y == 10 * comm.size).all()
    rest = [collectives.plan_bcast(x, **how) for _ in range(48)]
    with pytest.raises(RuntimeError, match="50 plans"):
        collectives.plan_bcast(x, **how)
    for plan in (first, second, *rest):
        plan.close()
    own.Free()


def _by_auto(comm):
    return collectives.plan_allreduce(np.ones(10), comm=comm)


def _by_shared(comm):
    return collectives.plan_allreduce(np.ones(10), comm=comm, executor="shared")


def _with_a_limit(comm):
    return collectives.plan_allreduce(np.ones(10), comm=comm, executor="python", timeout=30)


def _in_a_window(comm):
    collectives.empty(comm, 10)
    return collectives.plan_allreduce(collectives.empty(comm, 10), comm=comm, executor="python")


@pytest.mark.ranks(2, 3, every_mpi=True)
@pytest.mark.parametrize("executor", SCHEDULED)
@pytest.mark.parametrize("make", [_by_auto, _by_shared, _with_a_limit, _in_a_window])
def test_runs_go_on_while_a_plan_is_made(comm, executor, make):
    """The others come to it only when a run is over that needs help here."""
    if make is _by_shared and "shared" not in EXECUTORS:
        pytest.skip("numba is not installed")
    own = comm.Dup()
    x = np.full(300_000, comm.rank + 1.0)
    first = collectives.plan_allreduce(x, comm=own, algorithm="ring", executor=executor)
    first.start()
    if comm.rank:
        first.wait()
    make(own).close()
    if not comm.rank:
        first.wait()
    assert (x == comm.size * (comm.size + 1) / 2).all()
    first.close()
    own.Free()
