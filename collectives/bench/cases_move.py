"""How to do the collectives that only move data, in each form, ours and the library's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import api, plans
from collectives.bench.buffers import Array, Buffers
from collectives.bench.form import Case, Form
from collectives.bench.settings import IN_PLACE, OUT_OF_PLACE, Settings


def bcast(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the way to do a broadcast from rank 0."""

    def inside() -> Form:
        return Form(
            b.refill_root,
            b.refill_root,
            b.work,
            partial(plans.plan_bcast, b.work, comm=comm),
            partial(api.bcast, b.work, comm=comm),
            library=partial(comm.Bcast, _plain(b.work)),
            begin=partial(comm.Ibcast, _plain(b.work)),
        )

    return Case({IN_PLACE: inside}, lambda: _done(inside()))


def allgather(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do an allgather, of parts that may differ in length."""
    even = len(set(b.counts)) == 1
    now: Any = comm.Allgather if even else comm.Allgatherv
    later: Any = comm.Iallgather if even else comm.Iallgatherv
    part, counts = b.data[b.part], None if even else b.counts

    def inside() -> Form:
        whole = _parts(b.work, counts)
        return Form(
            b.refill_part,
            b.refill_part,
            b.work,
            partial(plans.plan_allgather, b.work, counts=b.counts, comm=comm),
            partial(api.allgather, b.work, counts=b.counts, comm=comm),
            library=partial(now, MPI.IN_PLACE, whole),
            begin=partial(later, MPI.IN_PLACE, whole),
        )

    def outside() -> Form:
        whole = _parts(b.out, counts)
        return Form(
            b.clear,
            b.clear,
            b.out,
            partial(plans.plan_allgather, b.out, counts=b.counts, comm=comm),
            partial(api.allgather, part, b.out, counts=b.counts, comm=comm),
            copy=partial(np.copyto, b.out[b.part], part),
            library=partial(now, _plain(part), whole),
            begin=partial(later, _plain(part), whole),
        )

    return Case({IN_PLACE: inside, OUT_OF_PLACE: outside}, lambda: _done(outside()))


def alltoall(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do an alltoall, of parts that may differ in length.

    Where they do, rank i sends ``unit * ((i + j) % size + 1)`` elements to rank j, and gets as
    many from it.
    """
    size, rank = comm.Get_size(), comm.Get_rank()
    counts = [b.unit * ((rank + j) % size + 1) for j in range(size)] if s.uneven else None
    ours: dict[str, Any] = {"sendcounts": counts, "recvcounts": counts}
    now: Any = comm.Alltoallv if s.uneven else comm.Alltoall
    later: Any = comm.Ialltoallv if s.uneven else comm.Ialltoall

    def outside() -> Form:
        sent, into = _parts(b.data, counts), _parts(b.out, counts)
        return Form(
            b.clear,
            b.clear,
            b.out,
            partial(plans.plan_alltoall, b.data, b.out, comm=comm, **ours),
            partial(api.alltoall, b.data, b.out, comm=comm, **ours),
            library=partial(now, sent, into),
            begin=partial(later, sent, into),
        )

    def inside() -> Form:
        both = _parts(b.work, counts)
        return Form(
            b.refill,
            b.refill,
            b.work,
            library=partial(now, MPI.IN_PLACE, both),
            begin=partial(later, MPI.IN_PLACE, both),
        )

    return Case({OUT_OF_PLACE: outside, IN_PLACE: inside}, lambda: _done(outside()))


def gather(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do a gather to rank 0, of parts that may differ in length."""
    root = comm.Get_rank() == 0
    counts = b.counts if s.uneven else None
    now: Any = comm.Gatherv if s.uneven else comm.Gather
    later: Any = comm.Igatherv if s.uneven else comm.Igather
    part, length = b.data[b.part], b.data.size if root else 0

    def outside() -> Form:
        whole = _parts(b.out, counts)
        return Form(
            b.clear,
            b.clear,
            b.out[:length],
            partial(plans.plan_gather, part, b.out, counts=counts, comm=comm),
            partial(api.gather, part, b.out, counts=counts, comm=comm),
            library=partial(now, _plain(part), whole),
            begin=partial(later, _plain(part), whole),
        )

    def inside() -> Form:
        sent: Any = MPI.IN_PLACE if root else _plain(part)
        whole = _parts(b.work, counts) if root else None
        return Form(
            b.refill_part,
            b.refill_part,
            b.work[:length],
            library=partial(now, sent, whole),
            begin=partial(later, sent, whole),
        )

    return Case({OUT_OF_PLACE: outside, IN_PLACE: inside}, lambda: _done(outside()))


def scatter(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the ways to do a scatter from rank 0, of parts that may differ in length."""
    root = comm.Get_rank() == 0
    counts = b.counts if s.uneven else None
    now: Any = comm.Scatterv if s.uneven else comm.Scatter
    later: Any = comm.Iscatterv if s.uneven else comm.Iscatter

    def outside() -> Form:
        whole, part = _parts(b.data, counts), b.out[b.part]
        return Form(
            b.clear,
            b.clear,
            part,
            partial(plans.plan_scatter, b.data, part, counts=counts, comm=comm),
            partial(api.scatter, b.data, part, counts=counts, comm=comm),
            library=partial(now, whole, _plain(part)),
            begin=partial(later, whole, _plain(part)),
        )

    def inside() -> Form:
        whole, part = _parts(b.work, counts), b.work[b.part]
        into: Any = MPI.IN_PLACE if root else _plain(part)
        return Form(
            b.refill_root,
            b.refill_root,
            part,
            library=partial(now, whole, into),
            begin=partial(later, whole, into),
        )

    return Case({OUT_OF_PLACE: outside, IN_PLACE: inside}, lambda: _done(outside()))


def barrier(comm: MPI.Comm, s: Settings, b: Buffers) -> Case:
    """Return the way to do a barrier."""

    def inside() -> Form:
        return Form(
            _nothing,
            _nothing,
            b.data[:0],
            partial(plans.plan_barrier, comm=comm),
            partial(api.barrier, comm=comm),
            library=comm.Barrier,
            begin=comm.Ibarrier,
        )

    return Case({IN_PLACE: inside}, None)


def _plain(array: Array) -> Array:
    """Return the array as the library moves it: of 16 bits it has types for integers only."""
    return array.view(np.int16) if array.dtype.itemsize == 2 else array


def _parts(array: Array, counts: list[int] | None) -> Any:
    """Return the array as the library takes it where parts have these lengths."""
    return _plain(array) if counts is None else (_plain(array), counts)


def _done(form: Form) -> Array:
    """Return the result of the library's call."""
    assert form.library is not None
    form.reset()
    form.library()
    return form.result.copy()


def _nothing() -> None:
    """There is no input to restore."""
