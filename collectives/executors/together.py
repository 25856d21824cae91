"""The compiled loop of ranks that share memory: they pass data through slots, or read it in place.

Every rank has a flag: how many steps it has taken. In step c a rank puts a piece of its data into
its slot ``c % SLOTS`` and raises its flag to c; then, as soon as all flags are at ``c - 1``, it
takes what it needs of the piece before. So one piece is written while another is read. Who raised
its flag to c has done with the piece of step ``c - 2``; a rank that writes slot c has seen all
flags at ``c - 2``; hence four slots do. Flags only grow, also from run to run, so no barrier is
needed in between.

Where ``SLICED``, a rank reduces only a slice of each piece, into a slot for results, and copies the
other slices from the others' two steps later: less to read where there are many ranks, and three
steps instead of one from first to last.

Where the data of all ranks lie in windows nothing is passed: one step to see that all have come,
each takes what it needs from where it is, and one step to see that all have done.

With the first flag of a run a rank tells which plan it runs. Where they differ, all take two steps
without doing anything, and each runs first what the first rank runs.

One loop serves all collectives; numbers tell who gives what to whom (see `collectives.executors.
shared`). What is reduced is reduced in order of ranks, so all get the same bits.
"""

from __future__ import annotations

from typing import Any

from numba import carray, njit, types

from collectives.executors.intrinsics import (
    call_kernel,
    copy_bytes,
    load_acquire,
    pointer_i64,
    relax,
    store_release,
)
from collectives.executors.streaming import stream_bytes

(
    PLAN,
    DUE,
    PHASE,
    ITERATION,
    GIVEN,
    SEQUENCE,
    SIZE,
    RANK,
    SEGMENTS,
    SLOTS_AT,
    RESULTS_AT,
    SLOT_BYTES,
    TABLE,
    SPIN,
    MAY_WAIT,
    DIRECT,
    SLICED,
    ALLREDUCE,
    REDUCES,
    TO_EACH,
    GIVER,
    TAKER,
    OWN,
    OPERATION,
    REVERSED,
    REDUCE,
    ACCUMULATE,
    WIDEN,
    NARROW,
    ITEM,
    SCRATCH,
    BLOCK,
    SOURCE,
    WINDOW,
    OFFSET,
    TARGET,
    SEND_AT,
    SEND_BYTES,
    TAKE_AT,
    TAKE_BYTES,
    PEER_AT,
    PIECES,
    PIECE_BYTES,
    FIELDS,
) = range(44)
"""The fields of the state, an int64 array; addresses are numbers.

- PLAN: number of the plan. DUE: that of the plan which the first rank runs.
- PHASE, ITERATION, GIVEN: where a run that may not wait goes on.
- SEQUENCE: address of the counts of steps and of runs, common to all plans on a node.
- SEGMENTS: address of the addresses of all ranks' flags; behind them, at SLOTS_AT and RESULTS_AT,
  are the slots, each of SLOT_BYTES.
- TABLE: address of the address of the addresses of all windows, rank by rank.
- SPIN: looks at a flag before the core is given to others.
- DIRECT: try whether all data lie in windows.
- GIVER, TAKER: the rank that gives or takes, or -1 for all. OWN: one takes from itself too.
- OPERATION, REVERSED: numbers of the reduction, and of it with its operands exchanged. REDUCE,
  ACCUMULATE, WIDEN, NARROW: its kernels.
- ITEM: bytes of an element. SCRATCH, BLOCK: memory for BLOCK accumulated elements.
- SOURCE, TARGET: addresses of what is given and taken; WINDOW, OFFSET: where SOURCE lies.
- SEND_AT, SEND_BYTES: address of what is for each rank (or for all: the first), in the source.
- TAKE_AT, TAKE_BYTES: the same of what comes from each rank, in the target.
- PEER_AT: where, in the source of each rank, lies what this rank takes.
- PIECES, PIECE_BYTES: how the data are cut; PIECES is the same on all ranks.
"""

WAITS, DONE, OUT_OF_TURN, _NOT_DIRECT = range(4)
"""What a run says: it must wait; it is done; another plan comes first, whose number is DUE."""

_DIRECT_COME, _DIRECT_DONE, _STAGED, _SLICED, _OUT_OF_TURN = 1, 2, 3, 4, 5

_SLOTS = 4

_WINDOW, _OFFSET, _PLANS = 1, 2, 3  # behind a flag; of the plans of two runs, by turns
_LINE = 5

_inline = njit(nogil=True, inline="always", error_model="numpy")
_compiled = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
_sched_yield = types.ExternalFunction("sched_yield", types.int32())


@_compiled
def _have_come(segments: Any, size: int, step: int, spin: int, may_wait: bool) -> bool:
    """Return whether all flags are at ``step``; wait for them, if that is allowed."""
    for q in range(size):
        looks = 0
        while load_acquire(segments[q]) < step:
            if not may_wait:
                return False
            looks += 1
            if looks > spin:
                _sched_yield()
            else:
                relax()
    return True


@_inline
def _agree(state: Any, segments: Any, sequence: Any) -> bool:
    """Return whether all ranks run the same plan; all have raised their first flag."""
    at = _PLANS + sequence[1] % 2
    state[DUE] = carray(pointer_i64(segments[0]), _LINE)[at]
    for q in range(1, state[SIZE]):
        if carray(pointer_i64(segments[q]), _LINE)[at] != state[DUE]:
            return False
    return True


@_inline
def _slice(n: int, rank: int, size: int, item: int) -> Any:
    """Return the bytes (start, stop) that a rank reduces; cuts are at cache lines."""
    unit = 64 // item if item < 64 else 1
    each = ((n + size - 1) // size + unit - 1) // unit * unit
    return min(n, each * rank), min(n, each * (rank + 1))


@_compiled
def _accumulate(state: Any, sources: Any, at: int, target: int, count: int) -> None:
    """Reduce ``count`` elements (at most BLOCK) at ``sources[q] + at`` of all ranks."""
    op, scratch, nbytes = state[OPERATION], state[SCRATCH], count * state[ITEM]
    if state[WIDEN] != 0:
        call_kernel(state[WIDEN], op, scratch, sources[0] + at, count)
    else:
        copy_bytes(scratch, sources[0] + at, nbytes)
    for q in range(1, state[SIZE]):
        call_kernel(state[ACCUMULATE], op, scratch, sources[q] + at, count)
    if state[NARROW] != 0:
        call_kernel(state[NARROW], op, target, scratch, count)
    else:
        copy_bytes(target, scratch, nbytes)


@_compiled
def _reduce_all(state: Any, sources: Any, at: int, target: int, count: int) -> None:
    """Reduce ``count`` elements at ``sources[q] + at`` of all ranks into ``target``."""
    item, block = state[ITEM], state[BLOCK]
    done = 0
    while done < count:
        m = min(block, count - done)
        _accumulate(state, sources, at + done * item, target + done * item, m)
        done += m


@_compiled
def _allreduce_in_place(state: Any, sources: Any) -> None:
    """Reduce this rank's slice out of the data of all ranks, and store it in all of them."""
    item, block, size = state[ITEM], state[BLOCK], state[SIZE]
    lo, hi = _slice(carray(pointer_i64(state[SEND_BYTES]), 1)[0] // item, state[RANK], size, item)
    while lo < hi:
        m = min(block, hi - lo)
        at = lo * item
        if size == 2:
            call_kernel(state[REDUCE], state[OPERATION], sources[0] + at, sources[1] + at, m)
        else:
            _accumulate(state, sources, at, sources[0] + at, m)
        for q in range(1, size):
            copy_bytes(sources[q] + at, sources[0] + at, m * item)
        lo += m


@_compiled
def _take_in_place(state: Any, sources: Any) -> None:
    """Take what this rank needs out of the data of all ranks."""
    rank, size, item = state[RANK], state[SIZE], state[ITEM]
    take_at = carray(pointer_i64(state[TAKE_AT]), size)
    take_bytes = carray(pointer_i64(state[TAKE_BYTES]), size)
    peer_at = carray(pointer_i64(state[PEER_AT]), size)
    if state[ALLREDUCE] != 0:
        _allreduce_in_place(state, sources)
    elif state[TAKER] < 0 or state[TAKER] == rank:
        if state[REDUCES] != 0:
            _reduce_all(
                state, sources, peer_at[0], state[TARGET] + take_at[0], take_bytes[0] // item
            )
        else:
            for q in range(size):
                if (state[GIVER] < 0 or state[GIVER] == q) and (q != rank or state[OWN] != 0):
                    target = state[TARGET] + take_at[q]
                    copy_bytes(target, sources[q] + peer_at[q], take_bytes[q])


@_inline
def _length(nbytes: int, piece: int, piece_bytes: int) -> int:
    """Return how many bytes of a piece there are."""
    return max(0, min(piece_bytes, nbytes - piece * piece_bytes))


@_compiled
def _give(state: Any, slot: int, piece: int) -> None:
    """Put a piece into a slot of this rank."""
    if state[GIVER] >= 0 and state[GIVER] != state[RANK]:
        return
    size, piece_bytes = state[SIZE], state[PIECE_BYTES]
    send_at = carray(pointer_i64(state[SEND_AT]), size)
    send_bytes = carray(pointer_i64(state[SEND_BYTES]), size)
    for d in range(size if state[TO_EACH] != 0 else 1):
        length = _length(send_bytes[d], piece, piece_bytes)
        if length > 0:
            source = state[SOURCE] + send_at[d] + piece * piece_bytes
            stream_bytes(slot + d * piece_bytes, source, length)


@_compiled
def _take(state: Any, sources: Any, piece: int) -> None:
    """Take what this rank needs of a piece, out of the slots of all ranks."""
    rank, size, item = state[RANK], state[SIZE], state[ITEM]
    if state[TAKER] >= 0 and state[TAKER] != rank:
        return
    take_at = carray(pointer_i64(state[TAKE_AT]), size)
    take_bytes = carray(pointer_i64(state[TAKE_BYTES]), size)
    piece_bytes = state[PIECE_BYTES]
    inside = rank * piece_bytes if state[TO_EACH] != 0 else 0
    start = piece * piece_bytes
    if state[REDUCES] != 0:
        length = _length(take_bytes[0], piece, piece_bytes)
        target = state[TARGET] + take_at[0] + start
        if length <= 0:
            return
        if state[ALLREDUCE] != 0 and size == 2:
            # What is here is this rank's own part; both reduce in order of ranks.
            call_kernel(
                state[REDUCE],
                state[OPERATION] if rank == 0 else state[REVERSED],
                target,
                sources[1 - rank] + inside,
                length // item,
            )
        else:
            _reduce_all(state, sources, inside, target, length // item)
        return
    for q in range(size):
        if (state[GIVER] < 0 or state[GIVER] == q) and (q != rank or state[OWN] != 0):
            length = _length(take_bytes[q], piece, piece_bytes)
            if length > 0:
                copy_bytes(state[TARGET] + take_at[q] + start, sources[q] + inside, length)


@_inline
def _fill(sources: Any, segments: Any, size: int, at: int) -> None:
    for q in range(size):
        sources[q] = segments[q] + at


@_compiled
def _run_direct(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    """See whether all data lie in windows; if so take them there."""
    size, rank, base = state[SIZE], state[RANK], sequence[0]
    may_wait = state[MAY_WAIT] != 0
    if state[PHASE] == _DIRECT_COME:
        if state[GIVEN] == 0:
            mine = carray(pointer_i64(segments[rank]), _LINE)
            mine[_WINDOW] = state[WINDOW]
            mine[_OFFSET] = state[OFFSET]
            store_release(segments[rank], base + 1)
            state[GIVEN] = 1
        if not _have_come(segments, size, base + 1, state[SPIN], may_wait):
            return WAITS
        if not _agree(state, segments, sequence):
            return OUT_OF_TURN
        state[GIVEN] = 0
        tables = carray(pointer_i64(state[TABLE]), 1)[0]
        for q in range(size):
            if state[GIVER] >= 0 and state[GIVER] != q:
                continue
            line = carray(pointer_i64(segments[q]), _LINE)
            if line[_WINDOW] < 0:
                sequence[0] = base + 1
                return _NOT_DIRECT
            table = carray(pointer_i64(tables + 8 * size * line[_WINDOW]), size)
            sources[q] = table[q] + line[_OFFSET]
        _take_in_place(state, sources)
        store_release(segments[rank], base + 2)
        state[PHASE] = _DIRECT_DONE
    if not _have_come(segments, size, base + 2, state[SPIN], may_wait):
        return WAITS
    sequence[0] = base + 2
    return DONE


@_compiled
def _run_staged(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    size, rank, base, pieces = state[SIZE], state[RANK], sequence[0], state[PIECES]
    may_wait = state[MAY_WAIT] != 0
    i = state[ITERATION]
    while i <= pieces:
        step = base + i + 1
        if i < pieces and state[GIVEN] == 0:
            slot = segments[rank] + state[SLOTS_AT] + (step % _SLOTS) * state[SLOT_BYTES]
            _give(state, slot, i)
            store_release(segments[rank], step)
        if i > 0:
            if not _have_come(segments, size, step - 1, state[SPIN], may_wait):
                state[ITERATION] = i
                state[GIVEN] = 1
                return WAITS
            if i == 1 and not _agree(state, segments, sequence):
                return OUT_OF_TURN
            at = state[SLOTS_AT] + ((step - 1) % _SLOTS) * state[SLOT_BYTES]
            _fill(sources, segments, size, at)
            _take(state, sources, i - 1)
        state[GIVEN] = 0
        i += 1
    sequence[0] = base + pieces
    return DONE


@_compiled
def _run_sliced(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    """An allreduce in which each rank reduces a slice of each piece."""
    size, rank, base, pieces = state[SIZE], state[RANK], sequence[0], state[PIECES]
    item, slot_bytes, piece_bytes = state[ITEM], state[SLOT_BYTES], state[PIECE_BYTES]
    total = carray(pointer_i64(state[SEND_BYTES]), 1)[0]
    may_wait = state[MAY_WAIT] != 0
    i = state[ITERATION]
    while i <= pieces + 2:
        step = base + i + 1
        if i <= pieces + 1 and state[GIVEN] == 0:
            if i < pieces:
                slot = segments[rank] + state[SLOTS_AT] + (step % _SLOTS) * slot_bytes
                _give(state, slot, i)
            store_release(segments[rank], step)
        if i > 0:
            if not _have_come(segments, size, step - 1, state[SPIN], may_wait):
                state[ITERATION] = i
                state[GIVEN] = 1
                return WAITS
            if i == 1 and not _agree(state, segments, sequence):
                return OUT_OF_TURN
            if i - 1 < pieces:
                count = _length(total, i - 1, piece_bytes) // item
                lo, hi = _slice(count, rank, size, item)
                slot = ((step - 1) % _SLOTS) * slot_bytes
                _fill(sources, segments, size, state[SLOTS_AT] + slot)
                result = segments[rank] + state[RESULTS_AT] + slot
                # By way of the target, which takes its own slice too: it is this rank's alone.
                own = state[TARGET] + (i - 1) * piece_bytes + lo * item
                _reduce_all(state, sources, lo * item, own, hi - lo)
                stream_bytes(result, own, (hi - lo) * item)
            if i >= 3:
                start = (i - 3) * piece_bytes
                count = _length(total, i - 3, piece_bytes) // item
                slot = ((step - 3) % _SLOTS) * slot_bytes
                for q in range(size):
                    lo, hi = _slice(count, q, size, item)
                    if q != rank:
                        copy_bytes(
                            state[TARGET] + start + lo * item,
                            segments[q] + state[RESULTS_AT] + slot,
                            (hi - lo) * item,
                        )
        state[GIVEN] = 0
        i += 1
    sequence[0] = base + pieces + 2
    return DONE


@_compiled
def _run_nothing(state: Any, segments: Any, sequence: Any) -> int:
    """Take the two steps of a run that is not due, in which nothing is done."""
    step = sequence[0] + 2
    store_release(segments[state[RANK]], step)
    if not _have_come(segments, state[SIZE], step, state[SPIN], state[MAY_WAIT] != 0):
        return WAITS
    sequence[0] = step
    return OUT_OF_TURN


@njit("int64(int64)", nogil=True, cache=True, error_model="numpy")
def run(address: int) -> int:
    """Run the collective of a state, at its address; return WAITS, DONE or OUT_OF_TURN.

    A new run begins with PHASE at 0, where one leaves it that is done or out of turn.
    """
    state = carray(pointer_i64(address), FIELDS)
    size = state[SIZE]
    segments = carray(pointer_i64(state[SEGMENTS]), size)
    sources = carray(pointer_i64(state[SEGMENTS] + 8 * size), size)
    sequence = carray(pointer_i64(state[SEQUENCE]), 2)
    if state[PHASE] == 0:
        state[ITERATION] = 0
        state[GIVEN] = 0
        mine = carray(pointer_i64(segments[state[RANK]]), _LINE)
        mine[_PLANS + sequence[1] % 2] = state[PLAN]
        state[PHASE] = (
            _DIRECT_COME if state[DIRECT] != 0 else _SLICED if state[SLICED] != 0 else _STAGED
        )
    said = _NOT_DIRECT
    if state[PHASE] <= _DIRECT_DONE:
        said = _run_direct(state, segments, sources, sequence)
        if said == _NOT_DIRECT:
            state[PHASE] = _SLICED if state[SLICED] != 0 else _STAGED
    if state[PHASE] == _SLICED:
        said = _run_sliced(state, segments, sources, sequence)
    elif state[PHASE] == _STAGED:
        said = _run_staged(state, segments, sources, sequence)
    if said == OUT_OF_TURN:
        state[PHASE] = _OUT_OF_TURN
    if state[PHASE] == _OUT_OF_TURN:
        said = _run_nothing(state, segments, sequence)
    if said != WAITS:
        state[PHASE] = 0
        sequence[1] += 1
    return said
