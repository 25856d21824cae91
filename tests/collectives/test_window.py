"""Arrays in the memory that the ranks of a node share."""

import gc
import random

import numpy as np
import pytest

import collectives
from collectives.sharedmemory import SharedMemoryError
from collectives.window import known_node, open_node
from tests.collectives.cases import EXECUTORS

LAST = EXECUTORS[-1]


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_arrays_of_any_shape_and_dtype(comm):
    p, r = comm.size, comm.rank
    row = np.dtype([("a", np.int32), ("b", np.float64), ("c", "S3")])
    for shape, dtype in (
        ((2, 3 + r), np.float64),
        (r, np.int8),
        (0, "f4"),
        ((4, 0), int),
        (5, row),
    ):
        x = collectives.empty(comm, shape, dtype)
        assert x.shape == (shape if isinstance(shape, tuple) else (shape,))
        assert x.dtype == dtype
        assert x.flags.c_contiguous
        assert x.flags.writeable
    x = collectives.empty(comm, 2000, row)
    x[:] = (r, r / 2, b"xyz")
    collectives.bcast(x, p - 1, comm=comm, executor=LAST)
    assert (x == np.array((p - 1, (p - 1) / 2, b"xyz"), row)).all()


@pytest.mark.ranks(2)
def test_bad_arguments(comm):
    with pytest.raises(TypeError, match="holds objects"):
        collectives.empty(comm, 3, object)
    with pytest.raises(ValueError, match="shape=-1: a dimension is negative"):
        collectives.empty(comm, -1)
    with pytest.raises(TypeError, match="comm: is a str"):
        collectives.empty("world", 3)
    with pytest.raises(SharedMemoryError, match="more than this node has"):
        collectives.empty(comm, (1 << 60) if comm.rank else 1, np.uint8)
    assert (collectives.allreduce(collectives.empty(comm, 3) * 0 + 1, comm=comm) == comm.size).all()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_windows_end_in_any_order_and_their_places_are_taken_again(comm):
    order = random.Random(comm.rank)  # another one on each rank
    same = random.Random(1)
    alive = {}
    for k in range(60):
        n = same.randrange(1, 9000)
        x = collectives.empty(comm, n)
        x[:] = 1000 * comm.rank + k
        alive[k] = x[n // 2 :] if k % 3 else memoryview(x)  # what is left of it is a view
        del x
        for key in order.sample(sorted(alive), min(len(alive) // 2, 3)):
            del alive[key]
        for key, view in alive.items():
            assert (np.asarray(view) == 1000 * comm.rank + key).all()
    places = len(open_node(comm)._windows)
    alive.clear()
    gc.collect()
    for _ in range(20):
        collectives.empty(comm, 10)
    assert len(open_node(comm)._windows) == places


@pytest.mark.ranks(2, 3)
@pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")
def test_plans_go_on_when_other_windows_come_and_go(comm):
    x = collectives.empty(comm, 3000)
    with collectives.plan_allreduce(x, comm=comm, executor="shared") as plan:
        for k in range(30):
            x[:] = comm.rank + k
            plan.start()
            other = collectives.empty(comm, 5000)
            other[:] = -1
            plan.wait()
            assert (x == comm.size * (comm.size - 1) / 2 + comm.size * k).all()
        # Only some ranks rebind, to a window that is younger than the plan.
        if comm.rank == 0:
            y = collectives.empty(comm, 3000)
            plan.rebind(y)
        else:
            collectives.empty(comm, 3000)
            y = x
        y[:] = comm.rank
        plan.run()
        assert (y == comm.size * (comm.size - 1) / 2).all()


@pytest.mark.ranks(2)
def test_arrays_outlive_their_communicator(comm):
    own = comm.Dup()
    x = collectives.empty(own, 5000)
    x[:] = comm.rank
    collectives.allreduce(x, comm=own, executor=LAST)
    own.Free()
    gc.collect()
    assert (x == 1).all()
    x[:] = 7
    collectives.allreduce(x, comm=comm, executor=LAST)  # to this one it is private
    assert (x == 14).all()
    if LAST == "shared":
        assert known_node(comm).find(x)[0] == -1
