"""What breaks executors elsewhere."""

import itertools
import mmap

import ml_dtypes  # noqa: F401  (registers bfloat16)
import numpy as np
import pytest

import collectives
from collectives.bind import bind
from collectives.blocks import Regions, Split
from collectives.collective import ALLREDUCE
from collectives.executors.layout import MESSAGE_BYTES, lay_out
from collectives.executors.python import PythonPlan
from collectives.registry import REGISTRY
from collectives.step import Send
from tests.collectives.cases import (
    CASES,
    EXECUTORS,
    SCHEDULED,
    allreduce,
    numbers,
)
from tests.collectives.jobs import run_job

ALGORITHMS = ["ring", "tree", "recursive_doubling", "rabenseifner"]

every_executor = pytest.mark.parametrize("executor", [*EXECUTORS, "auto"])


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "tree", "chain", "swing"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_more_elements_than_an_int_counts(name, size):
    """By counting: the pages of this memory are never touched."""
    n = (1 << 31) + 13
    x = np.frombuffer(mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.int8)
    algorithm = REGISTRY.get(ALLREDUCE, name)
    first = x.ctypes.data
    sent, received = {}, {}
    for rank in range(size):
        blocks = Split(x, algorithm.blocks(size))
        stages, _ = lay_out(algorithm.generate(rank, size), blocks, rank)
        for stage in stages:
            for m in stage.messages:
                parts = [sum(p.size for p in part) for part in m.parts]
                assert max(parts) <= MESSAGE_BYTES
                assert parts[:-1] == [MESSAGE_BYTES] * (len(parts) - 1)
                assert sum(parts) == m.nbytes
                pair = (rank, m.peer) if m.send else (m.peer, rank)
                (sent if m.send else received).setdefault(pair, []).append(parts)
            for a in stage.arrivals:
                at = a.view.ctypes.data - first
                assert 0 <= at <= at + a.view.size <= n
    assert sent == received
    assert sum(map(sum, itertools.chain(*sent.values()))) >= 2 * (size - 1) * n


@pytest.mark.ranks(6, 9, 12, 16)
def test_many_ranks(comm):
    for collective, case in CASES.items():
        made = case(comm, 35, "float32")
        for executor in EXECUTORS:
            made.check(executor=executor)
        for name in REGISTRY.names(collective):
            case(comm, comm.size + 1, "int64").check(name, SCHEDULED[-1])
    allreduce(comm, 20_011, "float64").check(executor=EXECUTORS[-1], again=True)
    collectives.barrier(comm=comm)


@pytest.mark.ranks(2, 3, 4, 7)
def test_signs_of_zeros_and_bits_of_nans_are_the_same_on_all_ranks(comm):
    values = np.array([0x8000000000000000, 0, 0x7FF8000000000001, 0xFFF8000000000002], np.uint64)
    pool = {"float64": values.view(np.float64)}
    pool["float32"] = np.array([0x80000000, 0, 0x7FC00001, 0xFFC00002], np.uint32).view(np.float32)
    pool["float16"] = np.array([0x8000, 0, 0x7E01, 0xFE02], np.uint16).view(np.float16)
    pool["bfloat16"] = np.array([0x8000, 0, 0x7FC1, 0xFFC2], np.uint16).view("bfloat16")
    ways = [(a, e) for a in ALGORITHMS for e in SCHEDULED] + [("auto", EXECUTORS[-1])]
    for dtype, four in pool.items():
        for op in (collectives.MIN, collectives.MAX, collectives.SUM, collectives.PROD):
            for algorithm, executor in ways if dtype == "float64" else ways[-3:]:
                x = four[np.random.default_rng(comm.rank).integers(0, 4, 64)]
                with np.errstate(invalid="ignore"):
                    collectives.allreduce(
                        x, op=op, comm=comm, algorithm=algorithm, executor=executor
                    )
                label = f"{dtype} {op} {algorithm} {executor}"
                assert len(set(comm.allgather(x.tobytes()))) == 1, label


@pytest.mark.ranks(1, 2, 3)
@every_executor
def test_subclasses_of_arrays(comm, tmp_path, executor):
    p, r = comm.size, comm.rank
    how = {"comm": comm, "executor": executor}
    matrix = np.arange(6.0 * p).reshape(2, 3 * p).view(np.matrix) + r
    want = np.arange(6.0 * p) * p + p * (p - 1) / 2
    out = np.zeros((2, 3 * p)).view(np.matrix)
    collectives.allreduce(matrix, out, **how)
    np.testing.assert_array_equal(np.asarray(out).ravel(), want)
    got = np.zeros(6 * p).view(np.recarray)
    collectives.alltoall(np.full(6 * p, float(r)).view(np.matrix), got, **how)
    np.testing.assert_array_equal(np.asarray(got), np.repeat(np.arange(p), 6))
    mapped = np.memmap(tmp_path / f"{r}", np.float64, "w+", shape=(10,))
    mapped[:] = r + 1
    collectives.allreduce(mapped, **how)
    assert (mapped == p * (p + 1) / 2).all()
    with pytest.raises(TypeError, match="masked"):
        collectives.bcast(np.ma.zeros(3), **how)


@pytest.mark.ranks(1, 2, 3)
@every_executor
def test_arrays_that_are_not_aligned(comm, executor):
    how = {"comm": comm, "executor": executor}
    for dtype in ("float16", "bfloat16", "int32", "float64"):
        for n in (3, 5000, 20_000):
            item = np.dtype(dtype).itemsize
            x = np.frombuffer(bytearray(n * item + 1), np.uint8)[1:].view(dtype)
            assert not x.flags.aligned
            x[:] = numbers(n, dtype, comm.rank, "SUM")
            want = allreduce(comm, n, dtype).want
            collectives.allreduce(x, **how)
            np.testing.assert_array_equal(x, want)
            x[:] = comm.rank + 1
            collectives.bcast(x, comm.size - 1, **how)
            assert (x == comm.size).all()


@pytest.mark.ranks(1, 3)
def test_regions_that_are_not_contiguous(comm):
    """Neighbours exchange faces of any stride; compiled code refuses them by name."""
    p, r = comm.size, comm.rank
    box = np.full((4, 5, 6), float(r))
    halo = np.zeros((4, 5))
    arguments = ([box[:, :, 2]], [(r + 1) % p], [halo], [(r - 1) % p])
    with collectives.plan_neighbor(*arguments, comm=comm) as plan:
        plan.run()
        assert plan.executor == "python"
    assert (halo == (r - 1) % p).all()
    if "native" in EXECUTORS:
        with pytest.raises(ValueError, match="not contiguous"):
            collectives.plan_neighbor(*arguments, comm=comm, executor="native")
    with pytest.raises(ValueError, match=r"algorithm='ring': there is one for neighbours only"):
        collectives.plan_neighbor(*arguments, comm=comm, algorithm="ring")


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.skipif("native" not in EXECUTORS, reason="numba is not installed")
def test_executors_of_schedules_talk_to_each_other(comm):
    for name in ("ring", "swing", "double_tree", "hierarchical:node=2"):
        algorithm = REGISTRY.get(ALLREDUCE, name)
        x = numbers(1001, "float32", comm.rank, "SUM")
        want = allreduce(comm, 1001, "float32").want
        rounds = algorithm.generate(comm.rank, comm.size)
        blocks = Split(x, algorithm.blocks(comm.size))
        executor = SCHEDULED[comm.rank % 2]
        with bind(rounds, blocks, comm, executor=executor, message_bytes=700) as plan:
            plan.run()
        np.testing.assert_array_equal(x, want)


@pytest.mark.ranks(1, 2)
def test_an_operation_of_the_user_that_fails(comm):
    fails = [False]

    def total(xp, a, b, out):
        if fails[0]:
            raise ZeroDivisionError("as the test wants")
        xp.add(a, b, out=out)

    op = collectives.Op("TOTAL", total)
    x = np.ones(50)
    plan = collectives.plan_allreduce(x, op, comm=comm, algorithm="recursive_doubling")
    plan.run()
    assert (x == comm.size).all()
    if comm.size > 1:
        fails[0] = True
        with pytest.raises(ZeroDivisionError):
            plan.run()
        fails[0] = False
        plan.wait()  # the run is over
    plan.close()
    x[:] = 1
    collectives.allreduce(x, op=op, comm=comm)
    assert (x == comm.size).all()
    for executor in EXECUTORS[1:] if comm.size > 1 else ():
        with pytest.raises(ValueError, match="TOTAL of float64"):
            collectives.allreduce(x, op=op, comm=comm, executor=executor)


def test_an_operation_that_fails_on_one_rank_ends_the_job(tmp_path, pytestconfig):
    script = """
        import numpy as np
        from mpi4py import MPI
        import collectives

        def total(xp, a, b, out):
            if MPI.COMM_WORLD.rank == 1:
                raise ZeroDivisionError("on one rank")
            xp.add(a, b, out=out)

        with collectives.abort_on_exception(MPI.COMM_WORLD):
            op = collectives.Op("TOTAL", total)
            collectives.allreduce(np.ones(5), op=op, comm=MPI.COMM_WORLD, algorithm="ring")
            collectives.barrier(comm=MPI.COMM_WORLD)
    """
    done, _ = run_job(tmp_path, pytestconfig, "", 3, script)
    assert done.returncode != 0
    assert "ZeroDivisionError: on one rank" in done.stderr


@pytest.mark.ranks(1, 2)
def test_plans_refuse_nonsense(comm):
    x = np.zeros(8)
    for executor in SCHEDULED:
        with pytest.raises(ValueError, match="message_bytes=0"):
            bind([], Split(x, 4), comm, executor=executor, message_bytes=0)
        with pytest.raises(ValueError, match="there are 4"):
            bind([[Send(0, 7)]], Split(x, 4), comm, executor=executor)
        with pytest.raises(ValueError, match="there are 1"):
            bind([[Send(0, 1)]], Regions([x]), comm, executor=executor)
    if "native" in EXECUTORS:
        with pytest.raises(ValueError, match="message_bytes=2147483648: needs at most"):
            bind([], Split(x, 4), comm, executor="native", message_bytes=1 << 31)


@pytest.mark.ranks(1, 3)
def test_many_communicators_one_after_the_other(comm):
    """MPI has room for about two thousand; each that is freed frees what was made for it."""
    x = np.ones(4)
    for i in range(1500):
        half = comm.Split(0)
        collectives.bcast(x, comm=half, executor=SCHEDULED[i % len(SCHEDULED)])
        half.Free()


@pytest.mark.ranks(1, 2, 4)
@every_executor
def test_sub_communicators_and_their_end(comm, executor):
    for i in range(40):
        half = comm.Split(comm.rank % 2)
        window = "shared" in EXECUTORS and i % 2
        x = collectives.empty(half, 1200) if window else np.empty(10)
        x[:] = comm.rank
        collectives.allreduce(x, comm=half, executor=executor)
        assert (x == sum(range(comm.rank % 2, comm.size, 2))).all()
        half.Free()
        assert (x == sum(range(comm.rank % 2, comm.size, 2))).all()


@pytest.mark.ranks(2)
def test_the_scratch_of_a_plan_is_no_larger_than_it_need_be(comm):
    x = np.zeros(100_000)
    ring = REGISTRY.get(ALLREDUCE, "ring")
    with PythonPlan(ring.generate(comm.rank, 2), Split(x, 2), comm) as plan:
        assert plan.scratch_bytes <= x.nbytes // 2 + 64
