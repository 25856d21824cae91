"""What the ranks of a node give and take: compiled code that moves and reduces their data."""

from __future__ import annotations

from typing import Any

from numba import carray, njit

from collectives.executors import fields as f
from collectives.executors.intrinsics import call_kernel, copy_bytes, pointer_i64
from collectives.executors.streaming import stream_bytes

inlined = njit(nogil=True, inline="always", error_model="numpy")
compiled = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@inlined
def slice_of(n: int, rank: int, size: int, item: int) -> Any:
    """Return the bytes (start, stop) that a rank reduces; cuts are at cache lines."""
    unit = 64 // item if item < 64 else 1
    each = ((n + size - 1) // size + unit - 1) // unit * unit
    return min(n, each * rank), min(n, each * (rank + 1))


@compiled
def _accumulate(state: Any, sources: Any, at: int, target: int, count: int) -> None:
    """Reduce ``count`` elements (at most BLOCK) at ``sources[q] + at`` of all ranks."""
    op, scratch, nbytes = state[f.OPERATION], state[f.SCRATCH], count * state[f.ITEM]
    if state[f.WIDEN] != 0:
        call_kernel(state[f.WIDEN], op, scratch, sources[0] + at, count)
    else:
        copy_bytes(scratch, sources[0] + at, nbytes)
    for q in range(1, state[f.SIZE]):
        call_kernel(state[f.ACCUMULATE], op, scratch, sources[q] + at, count)
    if state[f.NARROW] != 0:
        call_kernel(state[f.NARROW], op, target, scratch, count)
    else:
        copy_bytes(target, scratch, nbytes)


@compiled
def reduce_all(state: Any, sources: Any, at: int, target: int, count: int) -> None:
    """Reduce ``count`` elements at ``sources[q] + at`` of all ranks into ``target``."""
    item, block = state[f.ITEM], state[f.BLOCK]
    done = 0
    while done < count:
        m = min(block, count - done)
        _accumulate(state, sources, at + done * item, target + done * item, m)
        done += m


@compiled
def _allreduce_in_place(state: Any, sources: Any) -> None:
    """Reduce this rank's slice out of the data of all ranks, and store it in all of them."""
    item, block, size = state[f.ITEM], state[f.BLOCK], state[f.SIZE]
    lo, hi = slice_of(
        carray(pointer_i64(state[f.SEND_BYTES]), 1)[0] // item, state[f.RANK], size, item
    )
    while lo < hi:
        m = min(block, hi - lo)
        at = lo * item
        if size == 2:
            call_kernel(state[f.REDUCE], state[f.OPERATION], sources[0] + at, sources[1] + at, m)
        else:
            _accumulate(state, sources, at, sources[0] + at, m)
        for q in range(1, size):
            copy_bytes(sources[q] + at, sources[0] + at, m * item)
        lo += m


@compiled
def take_in_place(state: Any, sources: Any) -> None:
    """Take what this rank needs out of the data of all ranks."""
    rank, size, item = state[f.RANK], state[f.SIZE], state[f.ITEM]
    take_at = carray(pointer_i64(state[f.TAKE_AT]), size)
    take_bytes = carray(pointer_i64(state[f.TAKE_BYTES]), size)
    peer_at = carray(pointer_i64(state[f.PEER_AT]), size)
    if state[f.ALLREDUCE] != 0:
        _allreduce_in_place(state, sources)
    elif state[f.TAKER] < 0 or state[f.TAKER] == rank:
        if state[f.REDUCES] != 0:
            reduce_all(
                state, sources, peer_at[0], state[f.TARGET] + take_at[0], take_bytes[0] // item
            )
        else:
            for q in range(size):
                if (state[f.GIVER] < 0 or state[f.GIVER] == q) and (q != rank or state[f.OWN] != 0):
                    target = state[f.TARGET] + take_at[q]
                    copy_bytes(target, sources[q] + peer_at[q], take_bytes[q])


@inlined
def length_of(nbytes: int, piece: int, piece_bytes: int) -> int:
    """Return how many bytes of a piece there are."""
    return max(0, min(piece_bytes, nbytes - piece * piece_bytes))


@compiled
def give(state: Any, slot: int, piece: int) -> None:
    """Put a piece into a slot of this rank."""
    if state[f.GIVER] >= 0 and state[f.GIVER] != state[f.RANK]:
        return
    size, piece_bytes = state[f.SIZE], state[f.PIECE_BYTES]
    send_at = carray(pointer_i64(state[f.SEND_AT]), size)
    send_bytes = carray(pointer_i64(state[f.SEND_BYTES]), size)
    for d in range(size if state[f.TO_EACH] != 0 else 1):
        length = length_of(send_bytes[d], piece, piece_bytes)
        if length > 0:
            source = state[f.SOURCE] + send_at[d] + piece * piece_bytes
            stream_bytes(slot + d * piece_bytes, source, length)


@compiled
def take(state: Any, sources: Any, piece: int) -> None:
    """Take what this rank needs of a piece, out of the slots of all ranks."""
    rank, size, item = state[f.RANK], state[f.SIZE], state[f.ITEM]
    if state[f.TAKER] >= 0 and state[f.TAKER] != rank:
        return
    take_at = carray(pointer_i64(state[f.TAKE_AT]), size)
    take_bytes = carray(pointer_i64(state[f.TAKE_BYTES]), size)
    piece_bytes = state[f.PIECE_BYTES]
    inside = rank * piece_bytes if state[f.TO_EACH] != 0 else 0
    start = piece * piece_bytes
    if state[f.REDUCES] != 0:
        length = length_of(take_bytes[0], piece, piece_bytes)
        target = state[f.TARGET] + take_at[0] + start
        if length <= 0:
            return
        if state[f.ALLREDUCE] != 0 and size == 2:
            # What is here is this rank's own part; both reduce in order of ranks.
            call_kernel(
                state[f.REDUCE],
                state[f.OPERATION] if rank == 0 else state[f.REVERSED],
                target,
                sources[1 - rank] + inside,
                length // item,
            )
        else:
            reduce_all(state, sources, inside, target, length // item)
        return
    for q in range(size):
        if (state[f.GIVER] < 0 or state[f.GIVER] == q) and (q != rank or state[f.OWN] != 0):
            length = length_of(take_bytes[q], piece, piece_bytes)
            if length > 0:
                copy_bytes(state[f.TARGET] + take_at[q] + start, sources[q] + inside, length)
