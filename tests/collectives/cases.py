"""Collectives on data whose results are known: from the MPI library's own calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16)
import numpy as np
from mpi4py import MPI

import collectives
import collectives.algorithms  # fills the registry
from collectives.blocks import share
from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BARRIER,
    BCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    Collective,
)
from collectives.executors.native import numba_is_there
from collectives.plan import Plan
from collectives.registry import REGISTRY

EXECUTORS = ("python", "native", "shared") if numba_is_there() else ("python",)
SCHEDULED = EXECUTORS[:2]
OPS = {"SUM": MPI.SUM, "PROD": MPI.PROD, "MIN": MPI.MIN, "MAX": MPI.MAX}

Alloc = Callable[[int, Any], Any]
Made = tuple[Plan, Callable[[], None], Callable[[], Any]]


@dataclass
class Case:
    """A collective on some data.

    ``make(alloc, **options)`` returns a plan on arrays that `alloc` gives, a function that fills in
    the data, and one that returns the result of this rank, or None if it has none.
    """

    name: str
    make: Callable[..., Made]
    want: Any

    def check(
        self,
        algorithm: str = "auto",
        executor: str = "auto",
        alloc: Alloc = np.empty,
        again: bool = False,
    ) -> None:
        """Run it in one call, and ``again`` by start, test and wait; compare each result."""
        plan, fill, result = self.make(alloc, algorithm=algorithm, executor=executor)
        label = f"{self.name}, {algorithm}, {executor}, {plan.executor}"
        with plan:
            assert executor in ("auto", plan.executor), label
            fill()
            plan.run()
            self.compare(result(), f"{label}, run")
            if again:
                fill()
                plan.start()
                while not plan.test():
                    time.sleep(0)  # where ranks share a core, a peer may need it
                self.compare(result(), f"{label}, test")
                fill()
                plan.start()
                plan.test() or plan.wait()
                self.compare(result(), f"{label}, wait")

    def compare(self, got: Any, label: str) -> None:
        if self.want is not None:
            assert got.dtype == self.want.dtype, label
            wrong = np.flatnonzero(got != self.want)
            assert wrong.size == 0, f"{label}: element {wrong[:5]} is {got[wrong[:5]]}"


def specs(collective: Collective) -> list[str]:
    """Every algorithm, with each of its tunables at another value than its default."""
    found = []
    for name in REGISTRY.names(collective):
        for key, tunable in REGISTRY.get(collective, name).tunables.items():
            if tunable.choices is not None:
                others = [c for c in tunable.choices() if c != tunable.default]
                found += [f"{name}:{key}={c}" for c in others[:2]]
            else:
                found.append(f"{name}:{key}={2 if tunable.default != 2 else 3}")
    return found


def numbers(n: int, dtype: Any, rank: int, op: str = "") -> Any:
    """Different on each rank; reductions are exact in every dtype: powers of 2 for products."""
    i = np.arange(n)
    if op == "PROD":
        x = np.where(i % 3 == 0, 1, np.where((i + rank) % 4 == 0, 2, -1))
    elif op:
        x = (i * 7 + rank * 3) % 5 - 2
    else:
        x = (i * 7 + rank * 31 + i * rank) % 97
    return x.astype(dtype)


def reduced(comm: MPI.Comm, x: Any, op: str) -> Any:
    """What the library makes of it; 16-bit floats, which it lacks, go by way of float64."""
    y = x.astype(np.float64) if x.dtype.itemsize == 2 else x.copy()
    out = np.empty_like(y)
    comm.Allreduce(y, out, OPS[op])
    return out.astype(x.dtype)


def place(alloc: Alloc, x: Any) -> tuple[Any, Callable[[], None]]:
    """Return an array as long as ``x``, and a function that copies ``x`` into it."""
    buffer = alloc(x.size, x.dtype)
    return buffer, lambda: np.copyto(buffer, x)


def bounds(counts: Sequence[int] | None, n: int, size: int) -> list[int]:
    lengths = [b - a for a, b in (share(n, r, size) for r in range(size))]
    return list(accumulate(counts if counts is not None else lengths, initial=0))


def allreduce(comm: MPI.Comm, n: int, dtype: Any, op: str = "SUM") -> Case:
    x = numbers(n, dtype, comm.rank, op)

    def make(alloc: Alloc, **options: Any) -> Made:
        buffer, fill = place(alloc, x)
        plan = collectives.plan_allreduce(buffer, getattr(collectives, op), comm=comm, **options)
        return plan, fill, lambda: buffer

    return Case(f"allreduce {op} {n} {dtype}", make, reduced(comm, x, op))


def reduce(comm: MPI.Comm, n: int, dtype: Any, op: str = "SUM", root: int = 0) -> Case:
    x = numbers(n, dtype, comm.rank, op)

    def make(alloc: Alloc, **options: Any) -> Made:
        buffer, fill = place(alloc, x)
        ours = getattr(collectives, op)
        plan = collectives.plan_reduce(buffer, ours, root, comm=comm, **options)
        return plan, fill, lambda: buffer

    want = reduced(comm, x, op)
    return Case(f"reduce {op} {n} {dtype} to {root}", make, want if comm.rank == root else None)


def bcast(comm: MPI.Comm, n: int, dtype: Any, root: int = 0) -> Case:
    x = numbers(n, dtype, comm.rank)

    def make(alloc: Alloc, **options: Any) -> Made:
        buffer, fill = place(alloc, x)
        plan = collectives.plan_bcast(buffer, root, comm=comm, **options)
        return plan, fill, lambda: buffer

    want = x.copy()
    comm.Bcast(want.view(np.uint8), root)
    return Case(f"bcast {n} {dtype} from {root}", make, want)


def reduce_scatter(
    comm: MPI.Comm, n: int, dtype: Any, op: str = "SUM", counts: Sequence[int] | None = None
) -> Case:
    ends = bounds(counts, n, comm.size)
    x = numbers(ends[-1], dtype, comm.rank, op)
    mine = slice(*ends[comm.rank : comm.rank + 2])

    def make(alloc: Alloc, **options: Any) -> Made:
        buffer, fill = place(alloc, x)
        plan = collectives.plan_reduce_scatter(
            buffer, getattr(collectives, op), counts=counts, comm=comm, **options
        )
        return plan, fill, lambda: buffer[mine]

    if x.dtype.itemsize == 2:
        want = reduced(comm, x, op)[mine]
    else:
        want = np.empty(mine.stop - mine.start, dtype)
        comm.Reduce_scatter(x, want, np.diff(ends).tolist(), OPS[op])
    return Case(f"reduce_scatter {op} {n} {dtype} {counts}", make, want)


def allgather(comm: MPI.Comm, n: int, dtype: Any, counts: Sequence[int] | None = None) -> Case:
    ends = bounds(counts, n, comm.size)
    mine = slice(*ends[comm.rank : comm.rank + 2])
    x = np.zeros(ends[-1], dtype)
    x[mine] = numbers(mine.stop - mine.start, dtype, comm.rank)

    def make(alloc: Alloc, **options: Any) -> Made:
        buffer, fill = place(alloc, x)
        plan = collectives.plan_allgather(buffer, counts=counts, comm=comm, **options)
        return plan, fill, lambda: buffer

    want = np.empty_like(x)
    lengths = (np.diff(ends) * x.itemsize).tolist()
    comm.Allgatherv(x[mine].view(np.uint8), [want.view(np.uint8), lengths, MPI.BYTE])
    return Case(f"allgather {n} {dtype} {counts}", make, want)


def alltoall(comm: MPI.Comm, n: int, dtype: Any, uneven: bool = False) -> Case:
    size, rank = comm.size, comm.rank
    sends = [(2 * rank + 3 * q) % 4 * n if uneven else n for q in range(size)]
    recvs = [(2 * q + 3 * rank) % 4 * n if uneven else n for q in range(size)]
    counts = {"sendcounts": sends, "recvcounts": recvs} if uneven else {}
    x = numbers(sum(sends), dtype, rank)

    def make(alloc: Alloc, **options: Any) -> Made:
        source, fill = place(alloc, x)
        target = alloc(sum(recvs), dtype)
        plan = collectives.plan_alltoall(source, target, **counts, comm=comm, **options)

        def fill_both() -> None:
            fill()
            target[...] = 99

        return plan, fill_both, lambda: target

    want = np.empty(sum(recvs), dtype)
    item = x.itemsize
    comm.Alltoallv(
        [x.view(np.uint8), [c * item for c in sends], MPI.BYTE],
        [want.view(np.uint8), [c * item for c in recvs], MPI.BYTE],
    )
    return Case(f"alltoall {n} {dtype} {'uneven' if uneven else ''}", make, want)


def gather(
    comm: MPI.Comm, n: int, dtype: Any, root: int = 0, counts: Sequence[int] | None = None
) -> Case:
    lengths = list(counts) if counts is not None else [n] * comm.size
    x = numbers(lengths[comm.rank], dtype, comm.rank)
    total = sum(lengths) if comm.rank == root else 0

    def make(alloc: Alloc, **options: Any) -> Made:
        part, fill = place(alloc, x)
        whole = alloc(total, dtype)
        target = whole if comm.rank == root else None
        plan = collectives.plan_gather(part, target, root, counts=counts, comm=comm, **options)

        def fill_both() -> None:
            fill()
            whole[...] = 99

        return plan, fill_both, lambda: target

    want = np.empty(total, dtype)
    sizes = [c * x.itemsize for c in lengths]
    comm.Gatherv(x.view(np.uint8), [want.view(np.uint8), sizes, MPI.BYTE], root)
    return Case(f"gather {n} {dtype} to {root} {counts}", make, want if comm.rank == root else None)


def scatter(
    comm: MPI.Comm, n: int, dtype: Any, root: int = 0, counts: Sequence[int] | None = None
) -> Case:
    lengths = list(counts) if counts is not None else [n] * comm.size
    x = numbers(sum(lengths) if comm.rank == root else 0, dtype, comm.rank)

    def make(alloc: Alloc, **options: Any) -> Made:
        whole, fill = place(alloc, x)
        part = alloc(lengths[comm.rank], dtype)
        source = whole if comm.rank == root else None
        plan = collectives.plan_scatter(source, part, root, counts=counts, comm=comm, **options)

        def fill_both() -> None:
            fill()
            part[...] = 99

        return plan, fill_both, lambda: part

    want = np.empty(lengths[comm.rank], dtype)
    sizes = [c * x.itemsize for c in lengths]
    comm.Scatterv([x.view(np.uint8), sizes, MPI.BYTE], want.view(np.uint8), root)
    return Case(f"scatter {n} {dtype} from {root} {counts}", make, want)


CASES: dict[Collective, Callable[..., Case]] = {
    ALLREDUCE: allreduce,
    REDUCE: reduce,
    BCAST: bcast,
    REDUCE_SCATTER: reduce_scatter,
    ALLGATHER: allgather,
    ALLTOALL: alltoall,
    GATHER: gather,
    SCATTER: scatter,
}
"""All but the barrier, which has no data."""

ROOTED = (REDUCE, BCAST, GATHER, SCATTER)
REDUCING = (ALLREDUCE, REDUCE, REDUCE_SCATTER)
MOVING = tuple(c for c in CASES if c not in REDUCING)

assert {*CASES, BARRIER} == {a.collective for a in REGISTRY.all()}
