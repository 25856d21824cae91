"""The ways to do one collective at one length: the library's calls and the algorithms' plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from mpi4py import MPI

from collectives import plans
from collectives.bench.buffers import Array, Buffers
from collectives.bench.settings import Settings
from collectives.plan import Plan

LIBRARY = ("MPI in place", "MPI out of place")
"""The names of the library's own calls."""

Call: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do it.

    Attributes:
        name: of the algorithm, or one of `LIBRARY`.
        reset: restore the input and spoil the output; not timed.
        call: do it; timed.
        result: this rank's part of the result, once it is done.
        plan: to be closed in the end.
    """

    name: str
    reset: Call
    call: Call
    result: Array
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """What differs between the collectives.

    Attributes:
        library: name, reset, call and result of each of the library's calls.
        plan: makes the plan of an algorithm.
        reset: before a run of the plan.
        result: after it.
    """

    library: list[tuple[str, Call, Call, Array]]
    plan: Callable[[str], Plan]
    reset: Call
    result: Array


def variants(comm: MPI.Comm, settings: Settings, buffers: Buffers) -> list[Variant]:
    """Return the library's calls, then the algorithms. Collective over ``comm``."""
    case = CASES[settings.collective.name](comm, settings, buffers)
    found = [Variant(*call) for call in case.library]
    for algorithm in settings.algorithms:
        plan = case.plan(algorithm.name)
        found.append(Variant(algorithm.name, case.reset, plan.run, case.result, plan))
    return found


def _allreduce(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    op = _mpi_op(s)
    return Case(
        [
            (LIBRARY[0], b.refill, lambda: comm.Allreduce(MPI.IN_PLACE, b.work, op), b.work),
            (LIBRARY[1], b.clear, lambda: comm.Allreduce(b.data, b.out, op), b.out),
        ],
        lambda name: plans.plan_allreduce(b.work, s.op, comm=comm, algorithm=name),
        b.refill,
        b.work,
    )


def _reduce(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    op, root = _mpi_op(s), comm.Get_rank() == 0
    sent: Any = MPI.IN_PLACE if root else b.work
    into: Any = b.work if root else None
    work, out = (b.work, b.out) if root else (b.work[:0], b.out[:0])
    return Case(
        [
            (LIBRARY[0], b.refill, lambda: comm.Reduce(sent, into, op), work),
            (LIBRARY[1], b.clear, lambda: comm.Reduce(b.data, b.out, op), out),
        ],
        lambda name: plans.plan_reduce(b.work, s.op, comm=comm, algorithm=name),
        b.refill,
        work,
    )


def _bcast(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    return Case(
        [(LIBRARY[0], b.refill_root, lambda: comm.Bcast(b.work), b.work)],
        lambda name: plans.plan_bcast(b.work, comm=comm, algorithm=name),
        b.refill_root,
        b.work,
    )


def _reduce_scatter(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    op, own = _mpi_op(s), b.counts[comm.Get_rank()]
    work, out = b.work[:own], b.out[:own]
    if len(set(b.counts)) == 1:
        inplace: Call = lambda: comm.Reduce_scatter_block(MPI.IN_PLACE, b.work, op)  # noqa: E731
        outside: Call = lambda: comm.Reduce_scatter_block(b.data, out, op)  # noqa: E731
    else:
        inplace = lambda: comm.Reduce_scatter(MPI.IN_PLACE, b.work, b.counts, op)  # noqa: E731
        outside = lambda: comm.Reduce_scatter(b.data, out, b.counts, op)  # noqa: E731
    return Case(
        [(LIBRARY[0], b.refill, inplace, work), (LIBRARY[1], b.clear, outside, out)],
        lambda name: plans.plan_reduce_scatter(b.work, s.op, comm=comm, algorithm=name),
        b.refill,
        b.work[b.part],
    )


def _allgather(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    part = b.data[b.part]
    even = len(set(b.counts)) == 1
    gather: Any = comm.Allgather if even else comm.Allgatherv
    work: Any = b.work if even else (b.work, b.counts)
    out: Any = b.out if even else (b.out, b.counts)
    return Case(
        [
            (LIBRARY[0], b.refill_part, lambda: gather(MPI.IN_PLACE, work), b.work),
            (LIBRARY[1], b.clear, lambda: gather(part, out), b.out),
        ],
        lambda name: plans.plan_allgather(b.work, comm=comm, algorithm=name),
        b.refill_part,
        b.work,
    )


def _alltoall(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    return Case(
        [
            (LIBRARY[0], b.refill, lambda: comm.Alltoall(MPI.IN_PLACE, b.work), b.work),
            (LIBRARY[1], b.clear, lambda: comm.Alltoall(b.data, b.out), b.out),
        ],
        lambda name: plans.plan_alltoall(b.data, b.out, comm=comm, algorithm=name),
        b.clear,
        b.out,
    )


def _mpi_op(settings: Settings) -> MPI.Op:
    op: MPI.Op = getattr(MPI, settings.op.name)
    return op


CASES: dict[str, Callable[[MPI.Comm, Settings, Buffers], Case]] = {
    "allreduce": _allreduce,
    "reduce": _reduce,
    "bcast": _bcast,
    "reduce_scatter": _reduce_scatter,
    "allgather": _allgather,
    "alltoall": _alltoall,
}
"""How to do each collective."""
