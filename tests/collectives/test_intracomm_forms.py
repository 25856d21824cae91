"""The drop-in takes what mpi4py takes: every form of argument, against the plain communicator."""

import array

import numpy as np
import pytest
from mpi4py import MPI

from collectives import as_intracomm
from collectives.collective import COLLECTIVES
from collectives.executors.native import numba_is_there

SIZES = (1, 2, 3, 4, 8)
HOW = {"python": {"executor": "python"}, "ours": dict.fromkeys(COLLECTIVES, "ours"), "auto": {}}
if numba_is_there():
    HOW["shared"] = {"executor": "shared"}
EXECUTORS = list(HOW)


class HostTensor:
    """What shows its host memory through DLPack only, as a tensor of torch does."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **kwargs):
        return self.values.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class DeviceMemory:
    """Host memory behind the CUDA array interface, for an MPI that reads such memory."""

    def __init__(self, values):
        self.values = values

    @property
    def __cuda_array_interface__(self):
        return {**self.values.__array_interface__, "version": 3, "stream": None}


def forms(dtype):
    """Ways to pass a vector: name -> function of its values: the argument, and a reader of it."""
    kind = {"f8": (MPI.DOUBLE, "d"), "i4": (MPI.INT, "i"), "i8": (MPI.INT64_T, "q")}[dtype]

    def made(spec):
        def make(values):
            a = values.astype(dtype)
            return spec(a), lambda: a

        return make

    def of_bytes(values):
        b = bytearray(values.astype(dtype).tobytes())
        return [b, kind[0]], lambda: np.frombuffer(b, dtype)

    def of_array(values):
        b = array.array(kind[1], values.astype(dtype).tolist())
        return b, lambda: np.array(b)

    def of_middle(values):
        b = np.full(values.size + 5, 77, dtype)
        b[2 : 2 + values.size] = values
        return [b, (values.size, 2), kind[0]], lambda: b[2 : 2 + values.size]

    return {
        "bare": made(lambda a: a),
        "matrix": made(lambda a: a.reshape(1, -1)),
        "Fortran": made(lambda a: a.reshape(-1, 1).T),
        "type": made(lambda a: (a, kind[0])),
        "type string": made(lambda a: [a, kind[1]]),
        "count": made(lambda a: [a, a.size]),
        "count and type": made(lambda a: (a, a.size, kind[0])),
        "four": made(lambda a: [a, a.size, 0, kind[0]]),
        "memoryview": made(memoryview),
        "DLPack": made(HostTensor),
        "device": made(DeviceMemory),
        "bytes": of_bytes,
        "array.array": of_array,
        "displaced": of_middle,
    }


def values(rank, n, k=0):
    return (np.arange(n) * 7 + rank * 3 + k) % 11 - 5


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_each_form_gives_what_the_library_gives(comm, executor):
    ours = as_intracomm(comm, **HOW[executor])
    size, rank = comm.size, comm.rank
    for dtype in ("f8", "i4", "i8"):
        for name, form in forms(dtype).items():
            x = values(rank, 5).astype(dtype)
            want = np.empty_like(x)
            comm.Allreduce(x, want)
            # Where C has several names for a type, both buffers must use the same one.
            for other in (form, forms(dtype)["bare"]) if dtype == "f8" else (form,):
                send, _ = form(x)
                recv, result = other(np.zeros(5))
                ours.Allreduce(send, recv)
                np.testing.assert_array_equal(result(), want, err_msg=f"{dtype} {name}")
            buf, result = form(x)
            ours.Allreduce(MPI.IN_PLACE, buf)
            np.testing.assert_array_equal(result(), want, err_msg=f"in place {dtype} {name}")

            root = size - 1
            buf, result = form(x)
            ours.Bcast(buf, root)
            np.testing.assert_array_equal(result(), values(root, 5), err_msg=name)

            send, _ = form(x)
            recv, result = forms(dtype)["bare"](np.zeros(5 * size))
            ours.Allgather(send, recv)
            every = np.concatenate([values(r, 5) for r in range(size)])
            np.testing.assert_array_equal(result(), every, err_msg=name)
            recv, result = forms(dtype)["bare"](np.zeros(5 * size))
            ours.Gather(send, recv if rank == root else None, root)
            if rank == root:
                np.testing.assert_array_equal(result(), every, err_msg=name)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_movers_take_counts_and_displacements(comm, executor):
    ours = as_intracomm(comm, **HOW[executor])
    size, rank = comm.size, comm.rank
    counts = [(r * 2 + 1) % 4 for r in range(size)]
    displs = [sum(counts[r + 1 :]) + (size - r) for r in range(size)]  # gaps, and backwards
    room = sum(counts) + 2 * size + 3
    send = values(rank, counts[rank]).astype("f8")

    def both(call):
        got = []
        for c in (comm, ours):
            recv = np.full(room, -9.0)
            call(c, recv)
            got.append(recv)
        np.testing.assert_array_equal(*got)

    both(lambda c, recv: c.Allgatherv(send, [recv, counts, displs, MPI.DOUBLE]))
    both(lambda c, recv: c.Allgatherv(send, [recv, (counts, displs), "d"]))
    both(lambda c, recv: c.Allgatherv(send, (recv[: sum(counts)], counts)))
    root = size // 2
    both(lambda c, recv: c.Gatherv(send, [recv, counts, displs, MPI.DOUBLE], root))
    everything = values(0, room).astype("f8")
    both(
        lambda c, recv: c.Scatterv(
            [everything, counts, displs, MPI.DOUBLE] if rank == root else None,
            recv[: counts[rank]],
            root,
        )
    )
    goes = [(rank + r) % 3 for r in range(size)]
    comes = [(rank + r) % 3 for r in range(size)]
    at = [sum(goes[:r]) + r for r in range(size)]
    both(lambda c, recv: c.Alltoallv([everything, goes, at, "d"], [recv, (comes, at), MPI.DOUBLE]))
    n = room // size
    both(lambda c, recv: c.Alltoall([everything, n, MPI.DOUBLE], [recv, n, MPI.DOUBLE]))
    both(lambda c, recv: c.Alltoall(MPI.IN_PLACE, recv[: n * size]))
    both(lambda c, recv: c.Scatter([everything, n, "d"], [recv, n, MPI.DOUBLE], root))
    both(lambda c, recv: c.Allgather(MPI.IN_PLACE, recv[: 3 * size]))
    ours.Barrier()


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_root_may_be_in_place_and_others_pass_nothing(comm, executor):
    ours = as_intracomm(comm, **HOW[executor])
    size, rank = comm.size, comm.rank
    for root in range(size):
        for in_place in (False, True):  # at the root only: the others must not notice
            x = values(rank, 3).astype("f8")
            every = np.zeros((size, 3))
            every[rank] = x
            if rank == root:
                ours.Gather(MPI.IN_PLACE if in_place else x, every, root)
                assert (every == [values(r, 3) for r in range(size)]).all()
            else:
                ours.Gather(x, None, root)
            part = np.full(3, -1.0)
            if rank == root:
                ours.Scatter(every, None if in_place else part, root)
                assert in_place or (part == x).all()
            else:
                ours.Scatter(None, part, root)
                assert (part == x).all()
            total = x.copy()
            if rank == root:
                ours.Reduce(MPI.IN_PLACE if in_place else x, total, root=root)
                assert (total == sum(values(r, 3) for r in range(size))).all()
            else:
                ours.Reduce(x, None, MPI.SUM, root)
                assert (x == values(rank, 3)).all()


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_reduce_scatter(comm, executor):
    ours = as_intracomm(comm, **HOW[executor])
    size, rank = comm.size, comm.rank
    counts = [(r * 3 + 1) % 4 for r in range(size)]
    x = values(rank, sum(counts)).astype("i8")
    whole = sum(values(r, sum(counts)) for r in range(size))
    start = sum(counts[:rank])
    for given in (counts, None):
        recv = np.zeros(counts[rank], "i8")
        ours.Reduce_scatter(x, recv, given)
        np.testing.assert_array_equal(recv, whole[start : start + counts[rank]])
    buf = x.copy()
    ours.Reduce_scatter(MPI.IN_PLACE, buf, counts)
    np.testing.assert_array_equal(buf[: counts[rank]], whole[start : start + counts[rank]])
    y = values(rank, 2 * size).astype("f8")
    want, recv = np.zeros(2), np.zeros(2)
    comm.Reduce_scatter_block(y, want, MPI.MAX)
    ours.Reduce_scatter_block([y, 2, MPI.DOUBLE], recv, MPI.MAX)
    np.testing.assert_array_equal(recv, want)
    ours.Reduce_scatter_block(MPI.IN_PLACE, y, MPI.MAX)
    np.testing.assert_array_equal(y[:2], want)


@pytest.mark.ranks(2, 3, every_mpi=True)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_movers_take_datatypes_of_the_user_and_other_ones_on_each_rank(comm, executor):
    ours = as_intracomm(comm, **HOW[executor])
    rank = comm.rank
    every_other = MPI.DOUBLE.Create_vector(3, 1, 2).Commit()
    swapped = MPI.DOUBLE.Create_indexed([1, 1, 1], [2, 0, 1]).Commit()
    buf = np.arange(6.0) if rank == 0 else np.full(6, -1.0)
    if rank == 0:
        ours.Bcast([buf, 1, every_other])
    elif rank == 1:
        ours.Bcast([buf, 1, swapped])
        assert buf.tolist() == [2, 4, 0, -1, -1, -1]
    else:
        ours.Bcast([MPI.BOTTOM, 1, moved_to(buf, every_other)])
        assert buf.tolist() == [0, -1, 2, -1, 4, -1]
    recv = np.full(6 * comm.size, -1.0)
    ours.Allgather([np.arange(6.0) + 10 * rank, 1, every_other], [recv, 3, MPI.DOUBLE])
    want = [10 * r + i for r in range(comm.size) for i in (0, 2, 4)]
    assert recv[: 3 * comm.size].tolist() == want
    every_other.Free()
    swapped.Free()


def moved_to(buf, datatype):
    return MPI.Datatype.Create_struct([1], [MPI.Get_address(buf)], [datatype]).Commit()


@pytest.mark.ranks(2, every_mpi=True)
def test_what_is_wrong_is_said_before_any_message(comm):
    ours = as_intracomm(comm, **HOW["ours"])
    good = np.zeros(4)
    mistakes = [
        (ValueError, lambda: ours.Allreduce(good, np.zeros(3))),
        (ValueError, lambda: ours.Allreduce(good, np.zeros(4, "f4"))),
        (ValueError, lambda: ours.Allreduce([good, 9, MPI.DOUBLE], [good.copy(), 9, MPI.DOUBLE])),
        (ValueError, lambda: ours.Allgather(good, np.zeros(7))),
        (ValueError, lambda: ours.Allgatherv(good, [np.zeros(8), [4, 4, 4]])),
        (ValueError, lambda: ours.Bcast([good, -1])),
        (ValueError, lambda: ours.Bcast([good, (1, 9), MPI.DOUBLE])),
        (BufferError, lambda: ours.Bcast(np.zeros(8)[::2])),
        (TypeError, lambda: ours.Bcast(None)),
        (TypeError, lambda: ours.Allreduce(good, good.copy(), "SUM")),
        (KeyError, lambda: ours.Bcast(np.zeros(3, "S5"))),
        (KeyError, lambda: ours.Bcast([good, "no type"])),
        (MPI.Exception, lambda: ours.Bcast(good, 2)),
        (MPI.Exception, lambda: ours.Allreduce(good, good.copy(), MPI.BOR)),
    ]
    for error, call in mistakes:
        with pytest.raises(error):
            call()
    if comm.rank == 1:
        with pytest.raises(BufferError):
            ours.Bcast(b"abcd")
    total = np.zeros(4)
    ours.Allreduce(good + 1, total)  # nothing of the above is under way
    assert (total == 2).all()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_a_root_may_be_any_number_as_in_mpi4py(comm):
    ours = as_intracomm(comm, **HOW["ours"])
    last = comm.size - 1
    for root in (last, np.int64(last), np.float64(last), last + 0.5, np.array(last)):
        for which in (comm, ours):
            x, every = np.full(3, float(comm.rank)), np.zeros((comm.size, 3))
            which.Gather(x, every, root)
            which.Bcast(x, root=root)
            assert (x == last).all()
            total = np.zeros(3)
            which.Reduce(x, total, root=root)
            if comm.rank == last:
                assert (every == np.arange(comm.size)[:, None]).all()
                assert (total == comm.size * last).all()
    for root in (None, "0", 1j):
        for which in (comm, ours):
            with pytest.raises(TypeError):
                which.Bcast(np.zeros(3), root)


@pytest.mark.ranks(2)
def test_a_datatype_that_is_not_committed_holds_nothing_up(comm):
    ours = as_intracomm(comm, **HOW["ours"])
    column = MPI.DOUBLE.Create_vector(3, 1, 2)
    x = np.full(6, comm.rank + 1.0)
    ours.Bcast([x, 1, column])
    assert (x == np.where(np.arange(6) % 2, comm.rank + 1.0, 1.0)).all()
    column.Free()


@pytest.mark.ranks(1, 3)
def test_floats_of_16_bits_which_few_mpis_know(comm):
    import ml_dtypes

    ours = as_intracomm(comm)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        x = np.full(6, comm.rank + 1, dtype)
        total = np.zeros_like(x)
        ours.Allreduce(x, total)
        assert (total.astype(float) == sum(range(1, comm.size + 1))).all()
    with pytest.raises(TypeError, match="bfloat16 is only reduced by"):
        ours.Allreduce(x, total, MPI.LAND)


@pytest.mark.ranks(2)
def test_a_copy_of_the_object_is_a_plain_communicator(comm):
    ours = as_intracomm(comm)
    plain = type(ours)(comm)
    total = np.zeros(2)
    plain.Allreduce(np.ones(2), total)
    assert (total == 2).all()
    assert ours == comm
