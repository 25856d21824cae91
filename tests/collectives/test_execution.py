"""Every collective and algorithm over MPI, against the MPI library's own call and float64."""

from collections.abc import Iterator

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives.blocks import share
from collectives.collective import ALLGATHER, ALLREDUCE, ALLTOALL, BCAST, REDUCE, REDUCE_SCATTER
from collectives.arguments import REDUCIBLE
from collectives.registry import REGISTRY

SIZES = (1, 2, 3, 4, 5, 7, 8)
OPS = {"SUM": MPI.SUM, "PROD": MPI.PROD, "MIN": MPI.MIN, "MAX": MPI.MAX}

import collectives.algorithms  # noqa: E402


def lengths(p: int) -> list[int]:
    return sorted({0, 1, max(p - 1, 0), p, p + 1, 17, 1000})


def integer_valued(n: int, dtype: str, rank: int, op: str) -> np.ndarray:
    """Values whose reduction is exact in every dtype: small for sums, powers of 2 for products."""
    i = np.arange(n)
    x = (i * 7 + rank * 3) % 5 - 2
    if op == "PROD":
        x = np.where(i % 3 == 0, 1, np.where((i + rank) % 4 == 0, 2, -1))
    return x.astype(dtype)


def reference(x: np.ndarray, op: str, comm: MPI.Comm) -> np.ndarray:
    """The MPI library's own result; float16, which MPI lacks, goes by way of float64."""
    y = x.astype(np.float64) if x.dtype == np.float16 else x.copy()
    out = np.empty_like(y)
    comm.Allreduce(y, out, OPS[op])
    return out.astype(x.dtype)


def reductions(comm: MPI.Comm) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    for dtype in REDUCIBLE:
        for op in OPS:
            for n in lengths(comm.size):
                x = integer_valued(n, dtype, comm.rank, op)
                yield dtype, op, x, reference(x, op, comm)


def names(collective):
    return REGISTRY.names(collective)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", [*names(ALLREDUCE), "auto"])
def test_allreduce(comm, algorithm):
    for dtype, op, x, want in reductions(comm):
        ours = getattr(collectives, op)
        out = np.full_like(x, 99)
        kept = x.copy()
        got = collectives.allreduce(x, out, ours, comm=comm, algorithm=algorithm)
        assert got is out
        np.testing.assert_array_equal(out, want, err_msg=f"{dtype} {op} {x.size}")
        np.testing.assert_array_equal(x, kept)
        assert collectives.allreduce(x, op=ours, comm=comm, algorithm=algorithm) is x
        np.testing.assert_array_equal(x, want, err_msg=f"in place {dtype} {op} {x.size}")


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(ALLREDUCE))
def test_allreduce_of_any_floats_is_within_the_bound_and_the_same_on_all_ranks(comm, algorithm):
    for dtype in ("float16", "float32", "float64"):
        for n in (1, 5, 1001):
            rng = np.random.default_rng([comm.rank, n])
            x = rng.standard_normal(n).astype(dtype)
            parts = np.array(comm.allgather(x.astype(np.longdouble)))
            bound = comm.size * float(np.finfo(dtype).eps) * np.abs(parts).sum(axis=0)
            got = collectives.allreduce(x.copy(), comm=comm, algorithm=algorithm)
            again = collectives.allreduce(x.copy(), comm=comm, algorithm=algorithm)
            assert (np.abs(got - parts.sum(axis=0)) <= bound).all()
            assert got.tobytes() == again.tobytes()
            assert len(set(comm.allgather(got.tobytes()))) == 1


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(REDUCE))
def test_reduce(comm, algorithm):
    for root in {0, comm.size - 1}:
        for dtype, op, x, want in reductions(comm):
            ours = getattr(collectives, op)
            out = np.empty_like(x)
            kept = x.copy()
            collectives.reduce(x, out, ours, root, comm=comm, algorithm=algorithm)
            np.testing.assert_array_equal(x, kept)
            collectives.reduce(x, op=ours, root=root, comm=comm, algorithm=algorithm)
            if comm.rank == root:
                np.testing.assert_array_equal(out, want, err_msg=f"{dtype} {op} {x.size}")
                np.testing.assert_array_equal(x, want, err_msg=f"in place {dtype} {op} {x.size}")


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(BCAST))
def test_bcast(comm, algorithm):
    for root in range(comm.size):
        for dtype in (*REDUCIBLE, "uint8", "complex128", "bool"):
            for n in lengths(comm.size):
                x = (np.arange(n) * (comm.rank + 1) % 97).astype(dtype)
                want = x.copy()
                comm.Bcast(want.view(np.uint8), root)
                collectives.bcast(x, root, comm=comm, algorithm=algorithm)
                np.testing.assert_array_equal(x, want)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(REDUCE_SCATTER))
def test_reduce_scatter(comm, algorithm):
    for dtype, op, x, total in reductions(comm):
        ours = getattr(collectives, op)
        start, stop = share(x.size, comm.rank, comm.size)
        want = total[start:stop]
        if dtype != "float16":
            native = np.empty_like(want)
            counts = [b - a for a, b in (share(x.size, r, comm.size) for r in range(comm.size))]
            comm.Reduce_scatter(x, native, counts, OPS[op])
            np.testing.assert_array_equal(native, want)
        out = np.empty_like(want)
        kept = x.copy()
        collectives.reduce_scatter(x, out, ours, comm=comm, algorithm=algorithm)
        np.testing.assert_array_equal(x, kept)
        np.testing.assert_array_equal(out, want, err_msg=f"{dtype} {op} {x.size}")
        part = collectives.reduce_scatter(x, op=ours, comm=comm, algorithm=algorithm)
        np.testing.assert_array_equal(part, want)
        assert part.size == 0 or np.shares_memory(part, x)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(ALLGATHER))
def test_allgather(comm, algorithm):
    for dtype in (*REDUCIBLE, "uint8", "complex64"):
        for n in lengths(comm.size):
            start, stop = share(n, comm.rank, comm.size)
            part = ((np.arange(start, stop) * 3 + comm.rank) % 101).astype(dtype)
            want = np.empty(n, dtype)
            counts = [b - a for a, b in (share(n, r, comm.size) for r in range(comm.size))]
            size = part.itemsize
            comm.Allgatherv(
                part.view(np.uint8), [want.view(np.uint8), [c * size for c in counts], MPI.BYTE]
            )
            out = np.zeros(n, dtype)
            collectives.allgather(part, out, comm=comm, algorithm=algorithm)
            np.testing.assert_array_equal(out, want)
            whole = np.zeros(n, dtype)
            whole[start:stop] = part
            assert collectives.allgather(whole, comm=comm, algorithm=algorithm) is whole
            np.testing.assert_array_equal(whole, want)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("algorithm", names(ALLTOALL))
def test_alltoall(comm, algorithm):
    for dtype in (*REDUCIBLE, "uint8"):
        for n in (0, 1, 3, 100):
            x = ((np.arange(n * comm.size) * 3 + comm.rank * 31) % 101).astype(dtype)
            want, out = np.empty_like(x), np.empty_like(x)
            comm.Alltoall(x.view(np.uint8), want.view(np.uint8))
            collectives.alltoall(x, out, comm=comm, algorithm=algorithm)
            np.testing.assert_array_equal(out, want)


@pytest.mark.ranks(1, 2, 3, 5, 8)
def test_a_plan_runs_many_times_back_to_back_on_its_own_data(comm):
    x = np.empty(1003)
    y = np.empty(777, np.float32)
    p = comm.size
    total = p * (p + 1) / 2
    for algorithm in names(ALLREDUCE):
        with (
            collectives.plan_allreduce(x, comm=comm, algorithm=algorithm) as first,
            collectives.plan_allreduce(y, comm=comm, algorithm="ring") as second,
        ):
            scratch = first.scratch_bytes
            for k in range(20):
                # Both in flight at once, and no barrier between the runs.
                x[:] = k * (comm.rank + 1)
                y[:] = -k * (comm.rank + 1)
                first.start()
                second.start()
                done = [first.test(), second.test()]
                if not done[1]:
                    second.wait()
                if not done[0]:
                    first.wait()
                assert (x == k * total).all()
                assert (y == -k * total).all()
            assert first.scratch_bytes == scratch


@pytest.mark.ranks(2, 3, 4, 7)
def test_the_counters_are_the_closed_forms(comm):
    p, n = comm.size, 840 * comm.size
    x = np.zeros(n)
    core = 1 << (p.bit_length() - 1)
    outside, folded = comm.rank >= core, comm.rank < p - core
    rounds = core.bit_length() - 1
    forms = {
        "ring": (2 * (p - 1), 2 * x.nbytes * (p - 1) // p),
        "recursive_doubling": (
            (1, x.nbytes) if outside else (rounds + folded, (rounds + folded) * x.nbytes)
        ),
        "rabenseifner": (
            (1, x.nbytes)
            if outside
            else (2 * rounds + folded, 2 * x.nbytes * (core - 1) // core + folded * x.nbytes)
        ),
    }
    for algorithm, (messages, nbytes) in forms.items():
        traffic = collectives.Traffic()
        collectives.allreduce(x, comm=comm, algorithm=algorithm, traffic=traffic)
        assert (traffic.messages, traffic.bytes) == (messages, nbytes), algorithm
        assert traffic.seconds > 0


@pytest.mark.ranks(2, 3)
def test_long_messages_are_cut(comm):
    from collectives.blocks import Split
    from collectives.executors.python import PythonPlan

    ring = REGISTRY.get(ALLREDUCE, "ring")
    x = np.arange(1000.0) * (comm.rank + 1)
    with PythonPlan(
        ring.generate(comm.rank, comm.size), Split(x, comm.size), comm, message_bytes=100
    ) as plan:
        plan.run()
        block = share(1000, 0, comm.size)[1] * 8
        assert plan.messages >= 2 * (comm.size - 1) * (block // 100)
    np.testing.assert_array_equal(x, np.arange(1000.0) * comm.size * (comm.size + 1) / 2)


@pytest.mark.ranks(1, 2, 4)
def test_sub_communicators_and_their_end(comm):
    for _ in range(50):
        half = comm.Split(comm.rank % 2)
        x = np.full(10, float(comm.rank))
        collectives.allreduce(x, comm=half, algorithm="ring")
        assert (x == sum(range(comm.rank % 2, comm.size, 2))).all()
        half.Free()  # frees the private duplicate with it


@pytest.mark.ranks(1, 2)
def test_bad_arguments_are_refused_before_any_communication(comm):
    x = np.zeros(4)
    readonly = np.zeros(4)
    readonly.flags.writeable = False
    wrong = [
        (TypeError, "sendbuf: is a list", lambda: collectives.allreduce([1.0], comm=comm)),
        (TypeError, "complex128", lambda: collectives.allreduce(x.astype(complex), comm=comm)),
        (TypeError, "bool", lambda: collectives.allreduce(x.astype(bool), comm=comm)),
        (TypeError, "byte order", lambda: collectives.allreduce(x.astype(">f8"), comm=comm)),
        (TypeError, "object", lambda: collectives.bcast(x.astype(object), comm=comm)),
        (
            TypeError,
            "float32, sendbuf float64",
            lambda: collectives.allreduce(x, x.astype("f4"), comm=comm),
        ),
        (TypeError, "op: is", lambda: collectives.allreduce(x, op=MPI.SUM, comm=comm)),
        (ValueError, "needs 4", lambda: collectives.allreduce(x, np.zeros(5), comm=comm)),
        (ValueError, "overlaps", lambda: collectives.allreduce(x[:2], x[1:3], comm=comm)),
        (ValueError, "read-only", lambda: collectives.allreduce(readonly, comm=comm)),
        (ValueError, "C-contiguous", lambda: collectives.allreduce(np.zeros(8)[::2], comm=comm)),
        (ValueError, "ring, tree", lambda: collectives.allreduce(x, comm=comm, algorithm="rnig")),
        (ValueError, "root=9", lambda: collectives.bcast(x, 9, comm=comm)),
        (ValueError, "root=-1", lambda: collectives.reduce(x, root=-1, comm=comm)),
        (ValueError, "intracommunicator", lambda: collectives.bcast(x, comm=MPI.COMM_NULL)),
        (TypeError, "comm: is a str", lambda: collectives.bcast(x, comm="world")),
    ]
    for error, text, call in wrong:
        with pytest.raises(error, match=text):
            call()
    # Inputs of any stride are fine out of place; so is a 0-d array.
    out = np.zeros(4)
    collectives.allreduce(np.arange(8.0)[::2], out, comm=comm)
    np.testing.assert_array_equal(out, np.arange(0, 8, 2) * comm.size)
    collectives.allreduce(np.arange(4.0).reshape(2, 2).T, out, comm=comm)
    np.testing.assert_array_equal(out, np.array([0, 2, 1, 3]) * comm.size)
    one = np.array(1.0)
    collectives.allreduce(one, comm=comm)
    assert one == comm.size


@pytest.mark.ranks(1, 2)
def test_the_life_of_a_plan(comm):
    x = np.ones(3)
    plan = collectives.plan_allreduce(x, comm=comm, algorithm="ring")
    with pytest.raises(RuntimeError, match="not started"):
        plan.wait()
    with pytest.raises(RuntimeError, match="not started"):
        plan.test()
    plan.start()
    with pytest.raises(RuntimeError, match="runs already"):
        plan.start()
    plan.close()  # finishes what is in flight
    assert (x == comm.size).all()
    plan.close()
    with pytest.raises(RuntimeError, match="closed"):
        plan.start()
