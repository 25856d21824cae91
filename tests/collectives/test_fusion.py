"""Many arrays in few reductions."""

import itertools

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives.agreement import AgreementError
from collectives.fusion import allreduce_many, buckets, plan_allreduce_many

DTYPES = ["float32", "float64", "float16", "int32", "int64"]
OPS = {"SUM": MPI.SUM, "MAX": MPI.MAX}


def test_buckets_are_filled_in_order_and_by_dtype():
    f, g = ("f4", 8, False), ("f8", 8, False)
    assert buckets([f, f, f], 100) == [[0, 1, 2]]
    assert buckets([f, f, f], 16) == [[0, 1], [2]]
    assert buckets([f, f, f], 15) == [[0], [1], [2]]
    assert buckets([f, ("f4", 50, False), f, f], 20) == [[0], [1], [2, 3]]
    assert buckets([f, g, f, g, g], 16) == [[0, 2], [1, 3], [4]]
    assert buckets([f, ("f4", 0, False), f], 16) == [[0, 2]]
    assert buckets([f, ("f4", 8, True), f], 16) == [[0, 2], [1]]
    assert buckets([], 16) == []


def make(rank, lengths, dtypes, seed=0):
    """Small whole numbers, whose sums are exact in every dtype."""
    rng = np.random.default_rng([seed, rank])
    return [
        rng.integers(-8, 9, n).astype(dtype)
        for n, dtype in zip(lengths, itertools.cycle(dtypes), strict=False)
    ]


def reference(comm, array, op):
    wide = array.astype(np.float64)
    comm.Allreduce(MPI.IN_PLACE, wide, OPS[op])
    return wide.astype(array.dtype)


@pytest.mark.ranks(1, 2, 3, 5, every_mpi=True)
@pytest.mark.parametrize("bucket_bytes", [1, 100, 1 << 20])
def test_every_array_gets_its_reduction(comm, bucket_bytes):
    lengths = [0, 1, 2, comm.size - 1, comm.size, comm.size + 1, 17, 0, 100, 3, 1009, 5]
    for op, dtypes in (("SUM", DTYPES), ("MAX", DTYPES), ("SUM", ["float32"])):
        arrays = make(comm.rank, lengths, dtypes)
        want = [reference(comm, a, op) for a in arrays]
        for executor in ("python", "auto"):
            mine = [a.copy() for a in arrays]
            got = allreduce_many(
                mine,
                getattr(collectives, op),
                comm=comm,
                bucket_bytes=bucket_bytes,
                executor=executor,
            )
            for g, m, w in zip(got, mine, want, strict=True):
                assert g is m
                np.testing.assert_array_equal(m, w)


@pytest.mark.ranks(1, 2, 4, every_mpi=True)
def test_executor_shared(comm):
    pytest.importorskip("numba")
    arrays = make(comm.rank, [5, 1000, 30_000, 7], ["float32"])
    want = [reference(comm, a, "SUM") for a in arrays]
    with plan_allreduce_many(arrays, comm=comm, executor="shared", bucket_bytes=8000) as plan:
        plan.run()
    for a, w in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(a, w)


@pytest.mark.ranks(1, 2, 3)
def test_views_of_one_buffer_are_not_copied(comm):
    whole = np.arange(1000.0) * (comm.rank + 1)
    want = np.arange(1000.0) * comm.size * (comm.size + 1) / 2
    cuts = [0, 10, 300, 301, 900, 1000]
    views = [whole[a:b].reshape(-1, 1) for a, b in itertools.pairwise(cuts)]
    alone = collectives.plan_allreduce(np.zeros(1000), comm=comm)
    with plan_allreduce_many(views, comm=comm) as plan:
        assert plan.scratch_bytes == alone.scratch_bytes
        assert plan.messages == alone.messages
        plan.run()
    alone.close()
    np.testing.assert_array_equal(whole, want)
    # In another order they are, and get the same bits.
    whole[:] = np.arange(1000.0) * (comm.rank + 1)
    with plan_allreduce_many(views[::-1], comm=comm) as plan:
        assert plan.scratch_bytes >= whole.nbytes
        plan.run()
    np.testing.assert_array_equal(whole, want)


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
def test_the_bits_are_those_of_every_rank_run_and_layout(comm):
    """Also where one rank's arrays are views of one buffer, and another's are not."""
    lengths = [100, 7, 2048, 33, 1000]
    rng = np.random.default_rng(comm.rank)
    values = [rng.standard_normal(n).astype("f4") for n in lengths]
    results = set()
    for layout in range(3):
        arrays = [v.copy() for v in values]
        if (layout + comm.rank) % 2:
            whole = np.concatenate(values)
            arrays = np.split(whole, np.cumsum(lengths)[:-1])
        allreduce_many(arrays, comm=comm, bucket_bytes=10_000, algorithm="ring")
        results.update(comm.allgather(np.concatenate(arrays).tobytes()))
    assert len(results) == 1


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@pytest.mark.parametrize("executor", ["python", "auto"])
def test_a_plan_runs_again_and_again_beside_others(comm, executor):
    p, r = comm.size, comm.rank
    arrays = [np.zeros(n, "f4") for n in (5, 700, 40_000, 3)] + [np.zeros(9)]
    other, more = np.zeros(5000), [np.zeros(10), np.zeros(20_000)]
    options = {"comm": comm, "executor": executor}
    with (
        plan_allreduce_many(arrays, bucket_bytes=4096, **options) as plan,
        collectives.plan_allreduce(other, **options) as beside,
        plan_allreduce_many(more, bucket_bytes=64, **options) as third,
    ):
        for k in range(12):
            for i, a in enumerate([*arrays, other, *more]):
                a[...] = (k + i) * (r + 1)
            orders = list(itertools.permutations([plan, beside, third]))
            for each in orders[(k + r) % 6]:
                each.start()
            with pytest.raises(RuntimeError, match="runs already"):
                plan.start()
            for each in orders[(k + 2 * r) % 6]:
                if k % 2:
                    each.wait()
                else:
                    while not each.test():
                        pass
            for i, a in enumerate([*arrays, other, *more]):
                assert (a == (k + i) * p * (p + 1) / 2).all(), (k, i)
        plan.start()
    plan.close()
    with pytest.raises(RuntimeError, match="closed"):
        plan.start()
    with pytest.raises(RuntimeError, match="closed"):
        plan.wait()


@pytest.mark.ranks(2)
def test_counters_are_those_of_the_buckets(comm):
    arrays = [np.ones(100, "f4") for _ in range(10)]
    traffic = collectives.Traffic()
    options = {"comm": comm, "algorithm": "ring", "executor": "python"}
    with plan_allreduce_many(arrays, bucket_bytes=2000, traffic=traffic, **options) as plan:
        assert (plan.messages, plan.bytes_sent) == (2 * 2, 2 * 2000)
        assert plan.algorithm == "ring"
        assert plan.waiting_for() == []
        plan.run()
    assert (traffic.messages, traffic.bytes) == (4, 4000)


@pytest.mark.ranks(1, 2)
def test_what_cannot_be_is_refused(comm):
    x = np.zeros(10)
    for error, text, arguments in (
        (TypeError, r"arrays\[1\]: is a list", {"arrays": [x, [1.0]]}),
        (TypeError, r"arrays\[0\]: has dtype complex128", {"arrays": [x.astype(complex)]}),
        (ValueError, r"arrays\[0\]: .*C-contiguous", {"arrays": [x[::2]]}),
        (ValueError, r"arrays\[2\]: overlaps arrays\[0\]", {"arrays": [x[5:], x[:3], x[4:6]]}),
        (ValueError, r"arrays\[1\]: overlaps arrays\[0\]", {"arrays": [x, x]}),
        (ValueError, "bucket_bytes=0", {"arrays": [x], "bucket_bytes": 0}),
        (TypeError, "op: is a str", {"arrays": [x], "op": "SUM"}),
        (ValueError, "no such algorithm", {"arrays": [x], "algorithm": "rnig"}),
    ):
        with pytest.raises(error, match=text):
            allreduce_many(**arguments, comm=comm)


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_check_finds_other_arrays(comm):
    arrays = [np.ones(3), np.ones(4 + comm.rank % 2)]
    with pytest.raises(AgreementError, match=r"shapes: \(3,\), \(4,\) on rank"):
        allreduce_many(arrays, comm=comm, check=True)
    allreduce_many(arrays[:1], comm=comm, check=True)
    assert (arrays[0] == comm.size).all()


def _fail(xp, first, second, out):
    raise ArithmeticError("in a user's operation")


@pytest.mark.ranks(2)
def test_an_exception_in_an_operation(comm):
    bad = collectives.Op("BAD", _fail)
    plan = plan_allreduce_many([np.ones(3), np.ones(4)], bad, comm=comm, executor="python")
    plan.start()
    with pytest.raises(ArithmeticError):
        plan.wait()
    plan.wait()  # the run is over
    comm.Barrier()
    x = np.ones(3)
    allreduce_many([x], comm=comm)
    assert (x == 2).all()
