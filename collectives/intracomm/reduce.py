"""The reductions of the drop-in: what their arguments say is to be done.

Each function returns None where the library's own call has to do it, for reasons that are the same
on all ranks (see `collectives.intracomm.ops`).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from mpi4py import MPI

from collectives.bind import Job
from collectives.blocks import Split
from collectives.collective import ALLREDUCE, REDUCE, REDUCE_SCATTER
from collectives.intracomm.message import Message, block_message, means_in_place, rank_of
from collectives.intracomm.ops import operation
from collectives.intracomm.place import Placer
from collectives.intracomm.work import Here, Work, cut
from collectives.memory import namespace
from collectives.op import Op


def allreduce(here: Here, sendbuf: Any, recvbuf: Any, op: MPI.Op) -> Work | None:
    """Read the arguments of Allreduce."""
    target = block_message(recvbuf, True)
    source = None if means_in_place(sendbuf) else block_message(sendbuf, False)
    _check_alike(source, target)
    ours = operation(op, target.kind)
    if ours is None:
        return None
    placer, host = Placer(here.alone, here.direct), _on_host(ours)
    into = placer.elements(target, load=source is None, store=True, host=host)
    data = into if source is None else placer.elements(source, load=True, host=host)
    placer.first(data, into)
    job = Job(
        ALLREDUCE,
        lambda blocks: Split(into, blocks),
        into.nbytes,
        ours,
        target=into,
        layout=(),
    )
    return Work(job, placer.before, placer.after, library=not target.kind.carried)


def reduce(here: Here, sendbuf: Any, recvbuf: Any, op: MPI.Op, root: Any) -> Work | None:
    """Read the arguments of Reduce."""
    root = rank_of(root)
    at_root = here.rank == root
    target = block_message(recvbuf, True) if at_root else None
    source = None if at_root and means_in_place(sendbuf) else block_message(sendbuf, False)
    if target is not None:
        _check_alike(source, target)
    message = target or source
    assert message is not None
    ours = operation(op, message.kind)
    if ours is None or not 0 <= root < here.size:
        return None
    placer, host = Placer(here.alone, here.direct), _on_host(ours)
    data: Any = None if source is None else placer.elements(source, load=True, host=host)
    if target is not None:
        into = placer.elements(target, load=source is None, store=True, host=host)
        data = into if data is None else data
    else:
        # Partial sums pass through the other ranks, whose own buffers must stay as they are.
        into = namespace(data).empty(data.size, data.dtype)
    placer.first(data, into)
    job = Job(
        REDUCE,
        lambda blocks: Split(into, blocks),
        into.nbytes,
        ours,
        root,
        target=into,
        layout=(),
    )
    return Work(job, placer.before, placer.after, library=not message.kind.carried)


def reduce_scatter_block(here: Here, sendbuf: Any, recvbuf: Any, op: MPI.Op) -> Work | None:
    """Read the arguments of Reduce_scatter_block."""
    if means_in_place(sendbuf):
        source = target = block_message(recvbuf, True, here.size)
    else:
        target = block_message(recvbuf, True)
        source = block_message(sendbuf, False, here.size)
        _check_alike(source, target)
    (count,) = source.counts
    whole = replace(source, counts=(count * here.size,))
    part = replace(target, counts=(count,))
    return _scattered(here, whole, part, [count] * here.size, op)


def reduce_scatter(
    here: Here, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None, op: MPI.Op
) -> Work | None:
    """Read the arguments of Reduce_scatter."""
    target = block_message(recvbuf, True)
    in_place = means_in_place(sendbuf)
    source = target if in_place else block_message(sendbuf, False)
    if recvcounts is None and not in_place:
        counts = here.collect(target.counts[0])
    else:
        counts = [operator.index(c) for c in recvcounts or ()]
    if len(counts) != here.size:
        raise ValueError(f"expecting {here.size} items, got {len(counts)}")
    if source.kind.datatype != target.kind.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    (given,), total = source.counts, sum(counts)
    if given != total or min(counts) < 0:
        raise ValueError(
            f"mismatch in {'receive' if in_place else 'send'} count {given} and sum(counts) {total}"
        )
    mine = counts[here.rank]
    if not in_place and target.counts[0] != mine:
        raise ValueError(
            f"mismatch in receive count {target.counts[0]} and counts[{here.rank}] {mine}"
        )
    return _scattered(here, source, replace(target, counts=(mine,)), counts, op)


def _scattered(
    here: Here, whole: Message, part: Message, counts: Sequence[int], op: MPI.Op
) -> Work | None:
    ours = operation(op, whole.kind)
    if ours is None:
        return None
    placer, host = Placer(here.alone, here.direct), _on_host(ours)
    data = placer.elements(whole, load=True, host=host)
    into = placer.elements(part, store=True, host=host)
    work = namespace(data).empty(data.size, data.dtype)
    bounds = list(accumulate(counts, initial=0))
    mine = work[bounds[here.rank] : bounds[here.rank + 1]]
    job = Job(
        REDUCE_SCATTER,
        lambda blocks: Split(work, blocks, cut(bounds, blocks // here.size)),
        work.nbytes,
        ours,
        target=work,
        bounds=bounds,
        layout=tuple(bounds),
    )
    placer.first(data, work)
    placer.last(mine, into)
    return Work(job, placer.before, placer.after, library=not whole.kind.carried)


def _on_host(op: Op) -> bool:
    """Return whether an operation works on the host only: those that the library applies."""
    return not op.is_built_in


def _check_alike(source: Message | None, target: Message) -> None:
    if source is None:
        return
    if source.kind.datatype != target.kind.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if source.counts != target.counts:
        raise ValueError(
            f"mismatch in send count {source.counts[0]} and receive count {target.counts[0]}"
        )
