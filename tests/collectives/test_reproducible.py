"""The same summands give the same bits on any number of ranks."""

from fractions import Fraction

import numpy as np
import pytest

import collectives
from collectives import reproducible
from collectives.agreement import AgreementError
from collectives.blocks import share
from collectives.fixed_point import FOLDS, add, raise_exponents, value
from collectives.reproducible import allreduce_reproducible, plan_allreduce_reproducible

RANGE = {"float16": 4, "float32": 30, "float64": 300}
N = 401


def summands(dtype, k=12):
    """Vectors of wild exponents; some columns have subnormals, infinities or NaN."""
    rng = np.random.default_rng(7)
    info = np.finfo(dtype)
    with np.errstate(over="ignore"):
        x = rng.standard_normal((k, N)) * 10.0 ** rng.uniform(-RANGE[dtype], RANGE[dtype], (k, N))
        x = x.clip(-info.max / 16, info.max / 16).astype(dtype)
    x[:, :20] = (rng.integers(-99, 99, (k, 20)) * float(info.smallest_subnormal)).astype(dtype)
    x[3, 20:30] = np.inf
    x[5, 25:30] = -np.inf
    x[7, 30:33] = np.nan
    x[:, 33] = info.max
    x[:, 34:40] = [[(-1) ** i * 1e4] * 6 for i in range(k)]
    x[0, 35:40] += np.asarray(0.001, dtype)
    return x


def one_rank(x):
    """The same without MPI."""
    exponents, folds = np.zeros(N, np.int32), np.zeros((FOLDS[x.dtype.name], N), np.int64)
    for row in x:
        raise_exponents(row, exponents)
    for row in x[::-1]:
        add(row, exponents, folds)
    out = np.empty(N, x.dtype)
    value(folds, exponents, out)
    return out


@pytest.mark.ranks(1, 2, 3, 4, 8, every_mpi=True)
@pytest.mark.parametrize("dtype", RANGE)
def test_the_bits_do_not_depend_on_who_has_what(comm, dtype):
    x = summands(dtype)
    want = one_rank(x)
    finite = np.isfinite(x).all(axis=0) & np.isfinite(want)
    bits = 84 if dtype == "float64" else 42
    for column, result in zip(x[:, finite].T, want[finite], strict=True):
        exact = sum(Fraction(float(v)) for v in column)
        lost = len(x) * Fraction(float(abs(column).max())) / 2**bits
        assert abs(Fraction(float(result)) - exact) <= (
            Fraction(float(np.spacing(abs(result)))) / 2 + lost
        )
    order = np.random.default_rng(8).permutation(len(x))
    for rows in (np.arange(len(x)), order):
        for algorithm in ("ring", "auto"):
            start, stop = share(len(x), comm.rank, comm.size)
            out = np.empty(N, dtype)
            got = allreduce_reproducible(x[rows[start:stop]], out, comm=comm, algorithm=algorithm)
            assert got is out
            assert out.tobytes() == want.tobytes()
    # All on the last rank; the others have none.
    mine = x if comm.rank == comm.size - 1 else x[:0]
    assert allreduce_reproducible(mine, out, comm=comm).tobytes() == want.tobytes()


@pytest.mark.ranks(1, 2, 3, 4, every_mpi=True)
def test_one_summand_of_each_rank_in_place_and_not(comm):
    x = np.random.default_rng(comm.rank).standard_normal((5, 7)).astype("f4")
    exact = np.zeros((5, 7))
    for part in comm.allgather(x):
        exact += part
    kept = x.copy()
    out = np.empty_like(x)
    allreduce_reproducible(x, out, comm=comm)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(out, exact.astype("f4"))
    assert allreduce_reproducible(x, comm=comm) is x
    assert x.tobytes() == out.tobytes()
    # Inputs of any strides, and results of no dimensions or elements.
    allreduce_reproducible(kept.T.copy().T, out, comm=comm)
    assert x.tobytes() == out.tobytes()
    one = np.zeros(())
    allreduce_reproducible(np.full((3, 1), 0.1)[:, 0], one, comm=comm)
    assert one == float(3 * comm.size * Fraction(0.1))
    allreduce_reproducible(np.zeros((0, 0)), np.zeros(0), comm=comm)


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
@pytest.mark.parametrize("executor", ["python", "auto"])
def test_a_plan_runs_again_and_again_beside_others(comm, executor):
    p, r = comm.size, comm.rank
    x, y, z = np.empty(3000), np.empty(3000, "f4"), np.empty(100)
    options = {"comm": comm, "executor": executor}
    plans = [
        plan_allreduce_reproducible(x, **options),
        plan_allreduce_reproducible(y, **options),
        collectives.plan_allreduce(z, **options),
    ]
    for k in range(12):
        for a, factor in ((x, 1), (y, 10), (z, 100)):
            a[:] = factor * (r + 1) + k
        for i in np.roll(range(3), k + r):
            plans[i].start()
        for i in np.roll(range(3), k + 2 * r):
            if k % 2:
                plans[i].wait()
            else:
                while not plans[i].test():
                    pass
        for a, factor in ((x, 1), (y, 10), (z, 100)):
            assert (a == factor * p * (p + 1) / 2 + k * p).all()
    for plan in plans:
        plan.close()


@pytest.mark.ranks(1, 2, 4)
def test_executor_shared(comm):
    pytest.importorskip("numba")
    x = np.full(1000, 0.1)
    allreduce_reproducible(x, comm=comm, executor="shared")
    assert (x == float(comm.size * Fraction(0.1))).all()


@pytest.mark.ranks(1, 2)
def test_what_cannot_be_is_refused(comm):
    x, out = np.zeros((2, 3)), np.zeros(3)
    readonly = np.zeros(3)
    readonly.flags.writeable = False
    for error, text, arguments in (
        (TypeError, "takes numpy arrays of float16", (np.zeros(3, int),)),
        (TypeError, "is a list", ([1.0],)),
        (TypeError, "native byte order", (np.zeros(3, ">f8"),)),
        (TypeError, "recvbuf: has dtype float32, sendbuf float64", (x, out.astype("f4"))),
        (ValueError, "sendbuf: has shape", (x, np.zeros(2))),
        (ValueError, "sendbuf: has shape", (np.zeros((2, 2, 3)), out)),
        (ValueError, "overlaps", (x, x[0])),
        (ValueError, "read-only", (readonly,)),
        (ValueError, "read-only", (x, readonly)),
        (ValueError, "summands; needs at most", (np.zeros(((1 << 20) + 1, 0)), np.zeros(0))),
    ):
        with pytest.raises(error, match=text):
            allreduce_reproducible(*arguments, comm=comm)
    readable = np.ones(3)
    readable.flags.writeable = False
    allreduce_reproducible(readable, out, comm=comm)
    assert (out == comm.size).all()


@pytest.mark.ranks(2)
def test_too_many_summands_of_all_ranks_together(comm, monkeypatch):
    monkeypatch.setattr(reproducible, "SUMMANDS", 20)
    with pytest.raises(ValueError, match="all ranks together have 21 summands"):
        allreduce_reproducible(np.zeros((10 + comm.rank, 3)), np.zeros(3), comm=comm)


@pytest.mark.ranks(2, 3)
def test_check_finds_another_shape(comm):
    with pytest.raises(AgreementError, match=r"shape: \(3,\) on ranks? 0.*; \(4,\) on rank 1"):
        allreduce_reproducible(
            np.ones((comm.rank, 3 + comm.rank % 2)),
            np.ones(3 + comm.rank % 2),
            comm=comm,
            check=True,
        )
    with pytest.raises((AgreementError, TypeError), match="takes numpy arrays"):
        allreduce_reproducible(np.ones(3, "f4" if comm.rank else "i4"), comm=comm, check=True)
    got = allreduce_reproducible(np.ones((comm.rank, 3)), np.ones(3), comm=comm, check=True)
    assert (got == comm.size * (comm.size - 1) / 2).all()
