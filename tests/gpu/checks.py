"""What is right of collectives on device arrays, wherever the device comes from.

Each check takes a communicator, an algorithm, `make` (host array -> device array) and a number of
elements, and runs a collective in place and out of place. The right values come from numpy; they
are small whole numbers, so that they are exact in every dtype.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import collectives
from collectives.registry import REGISTRY

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.int64)


def host(array):
    """The values of a device array, when all work on it is done."""
    return array.get()


def part(n, rank, dtype=np.float32):
    """Some rank's array, the same wherever it is asked for."""
    return ((7 * np.arange(n) + 3 * rank) % 5 - 1).astype(dtype)


def equal(got, want):
    np.testing.assert_array_equal(host(got), want)


def parts(n, comm, dtype):
    return [part(n, rank, dtype) for rank in range(comm.size)]


def uneven(size, n):
    """Counts that differ, with a rank that has nothing, and as many elements as ``n`` in all."""
    if size == 1:
        return [n]
    counts = [0 if r == 1 else n // size for r in range(size)]
    counts[0] += n - sum(counts)
    return counts


def bounds(counts):
    return np.cumsum([0, *counts]).tolist()


def even(n, size):
    return [n * (r + 1) // size - n * r // size for r in range(size)]


def allreduce(comm, algorithm, make, n, dtype=np.float32):
    mine = parts(n, comm, dtype)
    for op, f in (("SUM", np.add), ("PROD", np.multiply), ("MIN", np.minimum)):
        want = mine[0]
        for x in mine[1:]:
            want = f(want, x)
        given = {"op": getattr(collectives, op), "comm": comm, "algorithm": algorithm}
        x = make(mine[comm.rank])
        assert collectives.allreduce(x, **given) is x
        equal(x, want)
        x, y = make(mine[comm.rank]), make(np.zeros(n, dtype))
        assert collectives.allreduce(x, y, **given) is y
        equal(y, want)
        equal(x, mine[comm.rank])


def reduce(comm, algorithm, make, n, dtype=np.float32):
    root = comm.size - 1
    mine = parts(n, comm, dtype)
    for recv in (None, make(np.zeros(n, dtype))):
        got = collectives.reduce(
            make(mine[comm.rank]), recv, root=root, comm=comm, algorithm=algorithm
        )
        if comm.rank == root:
            equal(got, np.sum(mine, axis=0, dtype=dtype))


def bcast(comm, algorithm, make, n, dtype=np.float32):
    for root in {0, comm.size - 1}:
        x = make(part(n, comm.rank, dtype))
        collectives.bcast(x, root, comm=comm, algorithm=algorithm)
        equal(x, part(n, root, dtype))


def reduce_scatter(comm, algorithm, make, n, dtype=np.float32):
    mine = parts(n, comm, dtype)
    want = np.sum(mine, axis=0, dtype=dtype)
    for counts in (None, uneven(comm.size, n)):
        lengths = counts or even(n, comm.size)
        start, stop = bounds(lengths)[comm.rank : comm.rank + 2]
        for recv in (None, make(np.zeros(stop - start, dtype))):
            got = collectives.reduce_scatter(
                make(mine[comm.rank]), recv, counts=counts, comm=comm, algorithm=algorithm
            )
            equal(got, want[start:stop])


def allgather(comm, algorithm, make, n, dtype=np.float32):
    want = part(n, 0, dtype)
    for counts in (None, uneven(comm.size, n)):
        start, stop = bounds(counts or even(n, comm.size))[comm.rank : comm.rank + 2]
        whole = np.full(n, 9, dtype)
        whole[start:stop] = want[start:stop]
        given = {"counts": counts, "comm": comm, "algorithm": algorithm}
        equal(collectives.allgather(make(whole), **given), want)
        recv = make(np.zeros(n, dtype))
        equal(collectives.allgather(make(want[start:stop]), recv, **given), want)


def alltoall(comm, algorithm, make, n, dtype=np.float32):
    p, r = comm.size, comm.rank
    sent = [part(n * p, rank, dtype) for rank in range(p)]
    recv = make(np.zeros(n * p, dtype))
    collectives.alltoall(make(sent[r]), recv, comm=comm, algorithm=algorithm)
    equal(recv, np.concatenate([s[n * r : n * (r + 1)] for s in sent]))


def alltoall_uneven(comm, make, n):
    """Rank i sends ``n * (i + j)`` elements to rank j."""
    p, r = comm.size, comm.rank
    counts = [n * (r + other) for other in range(p)]
    sent = [part(sum(n * (i + j) for j in range(p)), i) for i in range(p)]
    want = []
    for i in range(p):
        start = sum(n * (i + j) for j in range(r))
        want.append(sent[i][start : start + n * (i + r)])
    recv = make(np.zeros(sum(counts), np.float32))
    collectives.alltoall(make(sent[r]), recv, sendcounts=counts, recvcounts=counts, comm=comm)
    equal(recv, np.concatenate(want))


def gather(comm, algorithm, make, n, dtype=np.float32):
    root = comm.size - 1
    for counts in (None, uneven(comm.size, n * comm.size)):
        lengths = counts or [n] * comm.size
        recv = make(np.zeros(sum(lengths), dtype)) if comm.rank == root else None
        send = make(part(lengths[comm.rank], comm.rank, dtype))
        collectives.gather(send, recv, root, counts=counts, comm=comm, algorithm=algorithm)
        if recv is not None:
            equal(recv, np.concatenate([part(k, r, dtype) for r, k in enumerate(lengths)]))


def scatter(comm, algorithm, make, n, dtype=np.float32):
    root = comm.size - 1
    for counts in (None, uneven(comm.size, n * comm.size)):
        lengths = counts or [n] * comm.size
        whole = part(sum(lengths), 0, dtype)
        send = make(whole) if comm.rank == root else None
        recv = make(np.zeros(lengths[comm.rank], dtype))
        collectives.scatter(send, recv, root, counts=counts, comm=comm, algorithm=algorithm)
        start, stop = bounds(lengths)[comm.rank : comm.rank + 2]
        equal(recv, whole[start:stop])


def neighbor(comm, make, n):
    """Faces of a 3-D array go to both neighbours of a ring; none of them is contiguous."""
    p, r = comm.size, comm.rank
    left, right = (r - 1) % p, (r + 1) % p
    cubes = [part(3 * n * 4, rank).reshape(3, n, 4) for rank in range(p)]
    x = make(cubes[r])
    with collectives.plan_neighbor(
        [x[..., 1], x[..., 2]], [left, right], [x[..., 3], x[..., 0]], [right, left], comm=comm
    ) as plan:
        plan.run()
    want = cubes[r].copy()
    if p == 1:  # messages between the same two ranks are matched in order
        want[..., 3], want[..., 0] = cubes[r][..., 1], cubes[r][..., 2]
    elif p == 2:
        want[..., 3], want[..., 0] = cubes[left][..., 1], cubes[left][..., 2]
    else:
        want[..., 3], want[..., 0] = cubes[right][..., 1], cubes[left][..., 2]
    equal(x, want)


CHECKS = {
    "allreduce": allreduce,
    "reduce": reduce,
    "bcast": bcast,
    "reduce_scatter": reduce_scatter,
    "allgather": allgather,
    "alltoall": alltoall,
    "gather": gather,
    "scatter": scatter,
}


def algorithms():
    """(collective, algorithm) of all that move an array, as the registry has them."""
    return [(a.collective.name, a.name) for a in REGISTRY.all() if a.collective.name in CHECKS]


def plans_in_flight(comm, make, n):
    """Two runs at once, started and waited for in another order on each rank; then once more."""
    p = comm.size
    total = sum(range(1, p + 1))
    xs = [make(np.full(n, 0.0)) for _ in range(2)]
    with (
        collectives.plan_allreduce(xs[0], comm=comm, algorithm="ring") as a,
        collectives.plan_allreduce(xs[1], comm=comm, algorithm="recursive_doubling") as b,
    ):
        order = [a, b] if comm.rank % 2 == 0 else [b, a]
        for step in range(3):
            for k, x in enumerate(xs):
                x[...] = float((k + 1) * (comm.rank + 1) + step)
            for plan in order:
                plan.start()
            while not order[0].test():
                pass
            order[1].wait()
            for k, x in enumerate(xs):
                equal(x, np.full(n, float((k + 1) * total + p * step)))
