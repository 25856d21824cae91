"""How to do the collectives that reduce, in each form, ours and the library's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import api, plans
from collectives.bench.buffers import Array, Buffers
from collectives.bench.form import Case, Form
from collectives.bench.settings import IN_PLACE, OUT_OF_PLACE, Settings


def allreduce(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do an allreduce."""

    def inside() -> Form:
        return Form(
            b.refill,
            b.blank,
            b.work,
            partial(plans.plan_allreduce, b.work, s.op, comm=comm),
            partial(api.allreduce, b.work, op=s.op, comm=comm),
            **_library(comm.Allreduce, comm.Iallreduce, s, MPI.IN_PLACE, b.work),
        )

    def outside() -> Form:
        return Form(
            b.clear,
            b.clear,
            b.out,
            partial(plans.plan_allreduce, b.out, s.op, comm=comm),
            partial(api.allreduce, b.data, b.out, s.op, comm=comm),
            copy=partial(np.copyto, b.out, b.data),
            **_library(comm.Allreduce, comm.Iallreduce, s, b.data, b.out),
        )

    return Case({IN_PLACE: inside, OUT_OF_PLACE: outside}, lambda: _sums(comm, s, b))


def reduce(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do a reduction to rank 0."""
    root = comm.Get_rank() == 0
    length = b.data.size if root else 0

    def inside() -> Form:
        sent: Any = MPI.IN_PLACE if root else b.work
        into: Any = b.work if root else None
        return Form(
            b.refill,
            b.blank,
            b.work[:length],
            partial(plans.plan_reduce, b.work, s.op, comm=comm),
            partial(api.reduce, b.work, op=s.op, comm=comm),
            **_library(comm.Reduce, comm.Ireduce, s, sent, into),
        )

    def outside() -> Form:
        return Form(
            b.clear,
            b.clear,
            b.out[:length],
            partial(plans.plan_reduce, b.out, s.op, comm=comm),
            partial(api.reduce, b.data, b.out, s.op, comm=comm),
            copy=partial(np.copyto, b.out, b.data),
            **_library(comm.Reduce, comm.Ireduce, s, b.data, b.out),
        )

    return Case({IN_PLACE: inside, OUT_OF_PLACE: outside}, lambda: _sums(comm, s, b)[:length])


def reduce_scatter(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do a reduce-scatter."""
    own = b.counts[comm.Get_rank()]
    even = len(set(b.counts)) == 1
    now: Any = comm.Reduce_scatter_block if even else comm.Reduce_scatter
    later: Any = comm.Ireduce_scatter_block if even else comm.Ireduce_scatter
    counts = [] if even else [b.counts]

    def inside() -> Form:
        return Form(
            b.refill,
            b.blank,
            b.work[b.part],
            partial(plans.plan_reduce_scatter, b.work, s.op, comm=comm),
            partial(api.reduce_scatter, b.work, op=s.op, comm=comm),
            library_result=b.work[:own],
            **_library(now, later, s, MPI.IN_PLACE, b.work, *counts),
        )

    def outside() -> Form:
        return Form(
            b.clear,
            b.clear,
            b.out[b.part],
            partial(plans.plan_reduce_scatter, b.out, s.op, comm=comm),
            partial(api.reduce_scatter, b.data, b.out[b.part], s.op, comm=comm),
            copy=partial(np.copyto, b.out, b.data),
            library_result=b.out[:own],
            **_library(now, later, s, b.data, b.out[:own], *counts),
        )

    return Case({IN_PLACE: inside, OUT_OF_PLACE: outside}, lambda: _sums(comm, s, b)[b.part])


def _library(now: Any, later: Any, settings: Settings, *buffers: Any) -> dict[str, Any]:
    """Return the library's two calls, as `Form` takes them: none for elements of 16 bits."""
    if settings.dtype in ("float16", "bfloat16"):
        return {}
    op = getattr(MPI, settings.op.name)
    return {"library": partial(now, *buffers, op), "begin": partial(later, *buffers, op)}


def _sums(comm: MPI.Comm, settings: Settings, b: Buffers) -> Array:
    """Return the whole reduction, by the library; of 16-bit elements in float64."""
    short = b.data.dtype.itemsize == 2
    whole = b.data.astype(np.float64) if short else b.data.copy()
    comm.Allreduce(MPI.IN_PLACE, whole, getattr(MPI, settings.op.name))
    with np.errstate(over="ignore"):
        return whole.astype(b.data.dtype) if short else whole
