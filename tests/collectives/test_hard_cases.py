"""What breaks executors elsewhere."""

import gc
import itertools

import numpy as np
import pytest

import collectives
from collectives import channel
from collectives.blocks import Regions, Split
from collectives.collective import ALLREDUCE
from collectives.executors.python import PythonPlan
from collectives.registry import REGISTRY
from collectives.step import Send

ALGORITHMS = ["ring", "tree", "recursive_doubling", "rabenseifner"]


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_plans_may_be_waited_for_in_another_order_on_each_rank(comm, algorithm):
    p, r = comm.size, comm.rank
    x, y, z = (np.zeros(5003) for _ in range(3))
    plans = [collectives.plan_allreduce(a, comm=comm, algorithm=algorithm) for a in (x, y, z)]
    orders = list(itertools.permutations(range(3)))
    for k in range(12):
        for a, factor in ((x, 1), (y, 10), (z, 100)):
            a[:] = factor * (r + 1) + k
        for i in orders[(r + k) % 6]:
            plans[i].start()
        for i in orders[(2 * r + k) % 6]:
            plans[i].wait()
        for a, factor in ((x, 1), (y, 10), (z, 100)):
            assert (a == factor * p * (p + 1) / 2 + k * p).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(2, 3)
def test_a_plan_that_is_dropped_in_flight_still_finishes(comm):
    """Its memory must stay: MPI writes to it."""
    kept = np.ones(20000)
    for _ in range(5):
        plan = collectives.plan_allreduce(np.ones(20000), comm=comm, algorithm="ring")
        plan.start()
        del plan
        gc.collect()
        collectives.allreduce(kept, comm=comm, algorithm="ring")
    assert (kept == comm.size**5).all()


@pytest.mark.ranks(2, 3)
def test_tags_of_open_plans_are_not_given_out_again(comm, monkeypatch):
    monkeypatch.setattr(channel, "TAGS", 50)
    own = comm.Dup()
    x, y = np.zeros(100), np.zeros(100)
    first = collectives.plan_allreduce(x, comm=own, algorithm="ring")
    for _ in range(200):
        collectives.allreduce(np.ones(3), comm=own)
    second = collectives.plan_allreduce(y, comm=own, algorithm="ring")
    x[:], y[:] = 1, 10
    for plan in (first, second) if comm.rank else (second, first):
        plan.start()
    first.wait()
    second.wait()
    assert (x == comm.size).all()
    assert (y == 10 * comm.size).all()
    rest = [collectives.plan_bcast(x, comm=own) for _ in range(48)]
    with pytest.raises(RuntimeError, match="50 plans"):
        collectives.plan_bcast(x, comm=own)
    for plan in (first, second, *rest):
        plan.close()
    own.Free()


@pytest.mark.ranks(2, 3, 4, 7)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_signs_of_zeros_and_bits_of_nans_are_the_same_on_all_ranks(comm, algorithm):
    values = np.array([0x8000000000000000, 0, 0x7FF8000000000001, 0x7FF8000000000002], np.uint64)
    pool = values.view(np.float64)
    rng = np.random.default_rng(comm.rank)
    for op in (collectives.MIN, collectives.MAX, collectives.SUM, collectives.PROD):
        x = pool[rng.integers(0, 4, 64)]
        with np.errstate(invalid="ignore"):
            collectives.allreduce(x, op=op, comm=comm, algorithm=algorithm)
        assert len(set(comm.allgather(x.tobytes()))) == 1


@pytest.mark.ranks(1, 2, 3)
def test_subclasses_of_arrays(comm, tmp_path):
    p, r = comm.size, comm.rank
    matrix = np.arange(6.0 * p).reshape(2, 3 * p).view(np.matrix) + r
    want = np.arange(6.0 * p) * p + p * (p - 1) / 2
    out = np.zeros((2, 3 * p)).view(np.matrix)
    collectives.allreduce(matrix, out, comm=comm)
    np.testing.assert_array_equal(np.asarray(out).ravel(), want)
    got = np.zeros(6 * p).view(np.recarray)
    collectives.alltoall(np.full(6 * p, float(r)).view(np.matrix), got, comm=comm)
    np.testing.assert_array_equal(np.asarray(got), np.repeat(np.arange(p), 6))
    mapped = np.memmap(tmp_path / f"{r}", np.float64, "w+", shape=(10,))
    mapped[:] = r + 1
    collectives.allreduce(mapped, comm=comm)
    assert (mapped == p * (p + 1) / 2).all()
    with pytest.raises(TypeError, match="masked"):
        collectives.bcast(np.ma.zeros(3), comm=comm)


@pytest.mark.ranks(1, 2)
def test_plans_refuse_nonsense(comm):
    x = np.zeros(8)
    with pytest.raises(ValueError, match="message_bytes=0"):
        PythonPlan([], Split(x, 4), comm, message_bytes=0)
    with pytest.raises(ValueError, match="there are 4"):
        PythonPlan([[Send(0, 7)]], Split(x, 4), comm)
    with pytest.raises(ValueError, match="there are 1"):
        PythonPlan([[Send(0, 1)]], Regions([x]), comm)


@pytest.mark.ranks(1, 3)
def test_many_communicators_one_after_the_other(comm):
    """MPI has room for about two thousand; each that is freed frees its private duplicate."""
    x = np.ones(4)
    for _ in range(1500):
        half = comm.Split(0)
        collectives.bcast(x, comm=half)
        half.Free()


@pytest.mark.ranks(2)
def test_the_scratch_of_a_plan_is_no_larger_than_it_need_be(comm):
    x = np.zeros(100_000)
    ring = REGISTRY.get(ALLREDUCE, "ring")
    with PythonPlan(ring.generate(comm.rank, 2), Split(x, 2), comm) as plan:
        assert plan.scratch_bytes <= x.nbytes // 2 + 64
