"""Every collective, algorithm and executor over MPI, against the MPI library's own calls."""

import os
import time

import numpy as np
import pytest

import collectives
from collectives.arguments import REDUCIBLE
from collectives.collective import ALLGATHER, ALLREDUCE, BARRIER, REDUCE_SCATTER
from collectives.executors.native import numba_is_there
from collectives.registry import REGISTRY
from tests.collectives.cases import (
    CASES,
    EXECUTORS,
    MOVING,
    OPS,
    REDUCING,
    ROOTED,
    SCHEDULED,
    allgather,
    allreduce,
    alltoall,
    gather,
    numbers,
    reduce_scatter,
    scatter,
    specs,
)

SIZES = (1, 2, 3, 4, 5, 7, 8)

every_size = pytest.mark.ranks(*SIZES, every_mpi=True)
some_sizes = pytest.mark.ranks(1, 2, 3, 5, every_mpi=True)
every_collective = pytest.mark.parametrize("collective", CASES, ids=lambda c: c.name)


def lengths(size):
    return sorted({0, 1, size - 1, size, size + 1, 17, 1000})


def windows(comm, nbytes):
    """Give arrays in windows; return a function that gives them out, from the start each time."""
    pool = [collectives.empty(comm, nbytes, np.uint8) for _ in range(2)]
    turn = iter(pool * 1000)

    def alloc(n, dtype):
        return next(turn)[: n * np.dtype(dtype).itemsize].view(dtype)

    return alloc


def test_continuous_integration_has_numba():
    """Else the tests of two executors would be left out, and nobody would see it."""
    assert numba_is_there() or not os.environ.get("CI")


@every_size
@every_collective
def test_every_algorithm(comm, collective):
    """All lengths; the executors of schedules by turns, and both where they are 17 long."""
    names = REGISTRY.names(collective)
    for i, n in enumerate(lengths(comm.size)):
        root = {"root": n % comm.size} if collective in ROOTED else {}
        case = CASES[collective](comm, n, ("float32", "int64")[i % 2], **root)
        for j, name in enumerate(names):
            case.check(name, SCHEDULED[(i + j) % len(SCHEDULED)], again=n == 17)
            if n == 17:
                case.check(name, SCHEDULED[(i + j + 1) % len(SCHEDULED)], again=True)


@pytest.mark.ranks(4, 7, every_mpi=True)
@every_collective
def test_every_tunable(comm, collective):
    for dtype, n, executor in zip(("float32", "float64"), (17, 101), SCHEDULED, strict=False):
        case = CASES[collective](comm, n, dtype)
        for spec in specs(collective):
            case.check(spec, executor)


@some_sizes
@every_collective
def test_long_data(comm, collective):
    """Pieces, slots and slices; on private arrays and in windows."""
    total = 75_003
    n = total if collective.name in ("allreduce", "reduce", "bcast") else total // comm.size
    root = {"root": comm.size - 1} if collective in ROOTED else {}
    case = CASES[collective](comm, n, "float32", **root)
    for executor in EXECUTORS:
        case.check(executor=executor, again=True)
    case.check(again=True)
    if "shared" in EXECUTORS:
        window = windows(comm, 4 * total)
        case.check(executor="shared", alloc=window, again=True)
        case.check(alloc=window)
        # One rank's array lies in a window, and the others' do not: data go through slots.
        mixed = window if comm.rank == 0 else np.empty
        case.check(executor="shared", alloc=mixed, again=True)


@every_size
@every_collective
def test_shared_memory(comm, collective):
    longest = 4999
    window = windows(comm, 8 * longest * comm.size) if "shared" in EXECUTORS else None
    for n in [*lengths(comm.size), longest]:
        root = {"root": (n + 1) % comm.size} if collective in ROOTED else {}
        case = CASES[collective](comm, n, "float64", **root)
        case.check(executor=EXECUTORS[-1], again=n == longest)
        if window is not None:
            case.check(executor="shared", alloc=window, again=n == longest)


@some_sizes
@pytest.mark.parametrize("collective", REDUCING, ids=lambda c: c.name)
def test_every_dtype_and_operation(comm, collective):
    name = {"allreduce": "rabenseifner", "reduce": "binomial", "reduce_scatter": "pairwise"}
    for dtype in REDUCIBLE:
        for op in OPS:
            for n, executor in zip((1, 37, 9001), EXECUTORS, strict=False):
                algorithm = name[collective.name] if executor in SCHEDULED else "auto"
                CASES[collective](comm, n, dtype, op).check(algorithm, executor)


@pytest.mark.ranks(3, 4, every_mpi=True)
@pytest.mark.parametrize("collective", ROOTED, ids=lambda c: c.name)
def test_every_root(comm, collective):
    for root in range(comm.size):
        case = CASES[collective](comm, 13, "float64", root=root)
        for i, name in enumerate(REGISTRY.names(collective)):
            case.check(name, SCHEDULED[(root + i) % len(SCHEDULED)])
        case.check(executor=EXECUTORS[-1])


@some_sizes
@pytest.mark.parametrize("collective", MOVING, ids=lambda c: c.name)
def test_any_dtype_moves(comm, collective):
    for dtype in ("bool", "complex128", "float16", "bfloat16", "uint8", "S3"):
        case = CASES[collective](comm, 29, dtype)
        for executor in (*EXECUTORS, "auto"):
            case.check(executor=executor)


@every_size
def test_parts_of_any_length(comm):
    p = comm.size
    for counts in ([3 * r % 5 for r in range(p)], [0] * (p - 1) + [7], [0] * p, [40] * p):
        for executor in (*EXECUTORS, "auto"):
            for root in {0, p // 2, p - 1}:
                gather(comm, 0, "float32", root, counts).check(executor=executor)
                scatter(comm, 0, "float32", root, counts).check(executor=executor)
        for collective, case in (
            (ALLGATHER, allgather(comm, 0, "float64", counts)),
            (REDUCE_SCATTER, reduce_scatter(comm, 0, "float64", "MAX", counts)),
        ):
            for i, name in enumerate(REGISTRY.names(collective)):
                case.check(name, SCHEDULED[i % len(SCHEDULED)])
            for executor in (*EXECUTORS, "auto"):
                case.check(executor=executor, again=True)
    for n in (0, 1, 50):
        case = alltoall(comm, n, "float32", uneven=True)
        for executor in (*SCHEDULED, "auto"):
            for name in ("pairwise", "direct", "auto"):
                case.check(name, executor)
        with pytest.raises(ValueError, match="passes data on"):
            case.check("bruck")


@some_sizes
def test_a_barrier_waits_for_who_comes_late(comm):
    ways = [(name, e) for name in REGISTRY.names(BARRIER) for e in SCHEDULED]
    ways += [("auto", "auto"), ("auto", EXECUTORS[-1])]
    for i, (algorithm, executor) in enumerate(ways):
        with collectives.plan_barrier(comm=comm, algorithm=algorithm, executor=executor) as plan:
            for late in {i % comm.size, (i + 1) % comm.size}:
                comm.Barrier()
                if comm.rank == late:
                    time.sleep(0.003)
                came = time.monotonic()  # one clock for all processes of a machine
                if i % 2:
                    plan.run()
                else:
                    plan.start()
                    while not plan.test():
                        time.sleep(0)
                went = time.monotonic()
                assert min(comm.allgather(went)) >= max(comm.allgather(came)), (algorithm, executor)


@some_sizes
@pytest.mark.parametrize("executor", [*SCHEDULED, "auto"])
def test_exchange_with_neighbours(comm, executor):
    p, r = comm.size, comm.rank
    for n in (1, 10_000):
        for ring in (True, False):
            # With two ranks both messages go to the same one, with one rank to itself.
            left, right = (r - 1) % p, (r + 1) % p
            if not ring:
                left, right = (r - 1 if r else -1), (r + 1 if r < p - 1 else -1)
            sends = [numbers(n, "float32", 10 * r), numbers(n + 3, "float32", 10 * r + 1)]
            recvs = [np.full(n + 3, -1, "float32"), np.full(n, -1, "float32")]
            # To the left go n, and come from the right; n + 3 the other way. Where both come from
            # one rank they are in the order in which they were sent.
            peers = [right, left] if ring and p <= 2 else [left, right]
            if ring and p <= 2:
                recvs.reverse()
            with collectives.plan_neighbor(
                sends, [left, right], recvs, peers, comm=comm, executor=executor
            ) as plan:
                for _ in range(3):
                    for recv in recvs:
                        recv[:] = -1
                    plan.run()
                    for recv, peer in zip(recvs, peers, strict=True):
                        which = 0 if recv.size == n else 1
                        want = numbers(recv.size, "float32", 10 * peer + which)
                        np.testing.assert_array_equal(recv, want if peer >= 0 else -1)


@some_sizes
def test_sums_of_any_floats_are_within_the_bound_and_the_same_on_all_ranks(comm):
    for dtype, eps in (("float16", 2**-10), ("bfloat16", 2**-7), ("float32", 2**-23)):
        x = np.random.default_rng(comm.rank).standard_normal(1001).astype(dtype)
        parts = np.array(comm.allgather(x.astype(np.float64)))
        bound = comm.size * eps * np.abs(parts).sum(axis=0)
        ways = [(name, SCHEDULED[-1]) for name in REGISTRY.names(ALLREDUCE)]
        for algorithm, executor in [*ways, ("rabenseifner", "python"), ("auto", EXECUTORS[-1])]:
            got, again = x.copy(), x.copy()
            for y in (got, again):
                collectives.allreduce(y, comm=comm, algorithm=algorithm, executor=executor)
            label = f"{algorithm} {executor} {dtype}"
            assert (np.abs(got.astype(np.float64) - parts.sum(axis=0)) <= bound).all(), label
            assert got.tobytes() == again.tobytes(), label
            assert len(set(comm.allgather(got.tobytes()))) == 1, label


@some_sizes
def test_one_call_out_of_place_and_in_place(comm):
    p, r = comm.size, comm.rank
    for executor in (*EXECUTORS, "auto"):
        how = {"comm": comm, "executor": executor}
        case = allreduce(comm, 1000, "float32")
        x = numbers(1000, "float32", r, "SUM")
        out, kept = np.zeros_like(x), x.copy()
        assert collectives.allreduce(x, out, **how) is out
        assert collectives.reduce(x, out, root=p - 1, **how) is out
        part = slice(1000 * r // p, 1000 * (r + 1) // p)
        mine = np.zeros(part.stop - part.start, "float32")
        assert collectives.reduce_scatter(x, mine, **how) is mine
        np.testing.assert_array_equal(mine, case.want[part])
        whole = np.zeros_like(x)
        assert collectives.allgather(mine, whole, **how) is whole
        np.testing.assert_array_equal(whole, case.want)
        np.testing.assert_array_equal(x, kept)
        again = collectives.reduce_scatter(x, **how)
        np.testing.assert_array_equal(again, case.want[part])
        assert np.shares_memory(again, x)
        assert collectives.allgather(x, **how) is x
        np.testing.assert_array_equal(x, case.want)
        rows = np.empty((p, 3)) if r == 0 else None
        assert collectives.gather(np.full(3, float(r)), rows, **how) is rows
        one = collectives.scatter(rows, np.empty(3), **how)
        assert (one == r).all()
        # Inputs of any stride are taken out of place; so is a 0-d array.
        out = np.zeros(4)
        collectives.allreduce(np.arange(8.0)[::2], out, **how)
        np.testing.assert_array_equal(out, np.arange(0, 8, 2) * p)
        collectives.allreduce(np.arange(4.0).reshape(2, 2).T, out, **how)
        np.testing.assert_array_equal(out, np.array([0, 2, 1, 3]) * p)
        single = np.array(1.0)
        collectives.allreduce(single, **how)
        assert single == p
