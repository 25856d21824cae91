"""Many small arrays in few reductions: they share buckets, which are filled in a fixed order.

A message has its latency whatever its length, so that many short ones cost far more than one long
one. Which array lies in which bucket depends on the order, the lengths and the dtypes of the arrays
only, and never on which is ready first: so the result has the same bits on all ranks and in every
run, and no rank waits for a bucket that another fills otherwise (fusion: Sergeev and Del Balso
2018; buckets in a fixed order: Li et al. 2020).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from collectives.agreement import agree, checked
from collectives.arguments import at, check_buffer, op_of
from collectives.combined import CombinedPlan, Part
from collectives.memory import flat, namespace, on_device
from collectives.op import SUM, Op
from collectives.options import settings_of
from collectives.plan import Plan
from collectives.plans import plan_allreduce
from collectives.sharedmemory import SharedMemoryError
from collectives.window import empty

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options

BUCKET_BYTES = 4 << 20
"""Length of a bucket where nobody says: long enough for bandwidth, short enough to overlap."""


@checked
def plan_allreduce_many(
    arrays: Sequence[Any],
    op: Op | MPI.Op = SUM,
    *,
    comm: MPI.Comm,
    bucket_bytes: int = BUCKET_BYTES,
    **options: Unpack[Options],
) -> Plan:
    """Plan an allreduce of many arrays in place, in few messages.

    Arrays of one dtype fill a bucket until the next would make it longer than ``bucket_bytes``; an
    array that is longer has a bucket of its own. Arrays that follow each other in memory, as views
    of one buffer do, are reduced where they are; others are copied to the bucket and back. All
    buckets are started at once: the second is filled while the first is under way.

    Args:
        arrays: C-contiguous, of any shapes and dtypes; the same, in the same order, on all ranks.
        op: SUM, PROD, MIN, MAX (also those of MPI) or another `Op`.
        comm: the communicator.
        bucket_bytes: length of a bucket; at least 1.
        **options: see `collectives.options.Options`.

    Raises:
        TypeError: one is not an array, or of a dtype that cannot be reduced.
        ValueError: one is not contiguous or read-only, two overlap, ``bucket_bytes`` is below 1, or
            there is no such algorithm or executor.
    """
    arrays = list(arrays)
    for i, array in enumerate(arrays):
        check_buffer(f"arrays[{i}]", array, comm, reduce=True)
    op = op_of(op, comm)
    if bucket_bytes < 1:
        raise ValueError(f"bucket_bytes={bucket_bytes}: needs at least 1{at(comm)}")
    _check_disjoint(arrays, comm)
    inner = options.copy()
    if inner.pop("check", False):
        agree(comm, "allreduce_many", _call(arrays, op, bucket_bytes, inner))
    filled = buckets([(a.dtype, a.nbytes, on_device(a)) for a in arrays], bucket_bytes)
    views = [[flat(arrays[i]) for i in bucket] for bucket in filled]
    wholes = [_joined(bucket) for bucket in views]
    apart = [i for i, whole in enumerate(wholes) if whole is None]
    memory = _allocate([views[i] for i in apart], comm, inner.get("executor", "auto"))
    parts = []
    for i, bucket in enumerate(views):
        if wholes[i] is not None:
            parts.append(Part(plan_allreduce(wholes[i], op, comm=comm, **inner)))
        else:
            whole = memory.pop(0)
            made = plan_allreduce(whole, op, comm=comm, **inner)
            parts.append(Part(made, *_copies(bucket, whole)))
    plan = CombinedPlan(parts, comm, overlap=True)
    plan.scratch_bytes += sum(v.nbytes for i in apart for v in views[i])
    return plan


def allreduce_many(
    arrays: Sequence[Any],
    op: Op | MPI.Op = SUM,
    *,
    comm: MPI.Comm,
    bucket_bytes: int = BUCKET_BYTES,
    **options: Unpack[Options],
) -> list[Any]:
    """Reduce many arrays over all ranks, in place; every rank gets the results.

    Args and errors as for `plan_allreduce_many`.

    Returns:
        The arrays.
    """
    with plan_allreduce_many(arrays, op, comm=comm, bucket_bytes=bucket_bytes, **options) as plan:
        plan.run()
    return list(arrays)


def buckets(arrays: Sequence[tuple[Any, int, bool]], bucket_bytes: int) -> list[list[int]]:
    """Return which arrays share a bucket: their numbers, bucket by bucket.

    Args:
        arrays: (dtype, bytes, whether on a device) of each. Those of no bytes are in no bucket.
        bucket_bytes: at most so long is a bucket of more than one array.
    """
    found: list[list[int]] = []
    current: dict[tuple[Any, bool], tuple[list[int], int]] = {}
    for i, (dtype, nbytes, device) in enumerate(arrays):
        if not nbytes:
            continue
        bucket, filled = current.get((dtype, device), ([], 0))
        if not bucket or filled + nbytes > bucket_bytes:
            bucket, filled = [], 0
            found.append(bucket)
        bucket.append(i)
        current[dtype, device] = bucket, filled + nbytes
    return found


def _copies(views: list[Any], whole: Any) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what copies vectors to a bucket, and what copies it back."""
    starts = np.cumsum([0, *(view.size for view in views)]).tolist()
    places = [whole[start:stop] for start, stop in pairwise(starts)]

    def fill() -> None:
        for view, place in zip(views, places, strict=True):
            place[...] = view

    def empty_out() -> None:
        for view, place in zip(views, places, strict=True):
            view[...] = place

    return fill, empty_out


def _joined(views: list[Any]) -> Any:
    """Return one view of arrays that follow each other in memory; None where they do not."""
    if len(views) == 1:
        return views[0]
    if on_device(views[0]):
        return None
    for one, other in pairwise(views):
        if one.ctypes.data + one.nbytes != other.ctypes.data:
            return None
    first, size = views[0], sum(view.size for view in views)
    return np.lib.stride_tricks.as_strided(first, (size,), first.strides)


def _allocate(needed: list[list[Any]], comm: MPI.Comm, executor: str) -> list[Any]:
    """Return a bucket for each list of vectors. Collective, whatever this rank needs.

    What lies on the host is put where the other ranks of a node may read it, if that is of use.
    """
    spans = [0]
    for views in needed:
        nbytes = 0 if on_device(views[0]) else sum(int(view.nbytes) for view in views)
        spans.append(spans[-1] + -(-nbytes // 64) * 64)
    memory = np.empty(spans[-1], np.uint8)
    if executor in ("auto", "shared"):
        with contextlib.suppress(SharedMemoryError):  # which is raised on all ranks
            memory = empty(comm, spans[-1], np.uint8)
    found = []
    for views, (start, stop) in zip(needed, pairwise(spans), strict=True):
        size, dtype = sum(view.size for view in views), views[0].dtype
        if on_device(views[0]):
            found.append(namespace(views[0]).empty(size, dtype))
        else:
            found.append(memory[start:stop].view(dtype)[:size])
    return found


def _check_disjoint(arrays: list[Any], comm: MPI.Comm) -> None:
    spans = []
    for i, array in enumerate(arrays):
        if array.nbytes:
            interface = (
                array.__cuda_array_interface__ if on_device(array) else array.__array_interface__
            )
            start = int(interface["data"][0])
            spans.append((on_device(array), start, start + int(array.nbytes), i))
    for one, other in pairwise(sorted(spans)):
        if one[0] == other[0] and one[2] > other[1]:
            first, second = sorted((one[3], other[3]))
            raise ValueError(f"arrays[{second}]: overlaps arrays[{first}]{at(comm)}")


def _call(arrays: list[Any], op: Op, bucket_bytes: int, options: Options) -> dict[str, object]:
    return {
        "arrays": len(arrays),
        "dtypes": ", ".join(str(a.dtype) for a in arrays),
        "shapes": ", ".join(str(a.shape) for a in arrays),
        "op": op,
        "bucket_bytes": bucket_bytes,
        **settings_of(options).compared,
    }
