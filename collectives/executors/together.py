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

from collectives.executors import fields as f
from collectives.executors.intrinsics import (
    copy_bytes,
    load_acquire,
    pointer_i64,
    relax,
    store_release,
)
from collectives.executors.pieces import (
    compiled,
    give,
    inlined,
    length_of,
    reduce_all,
    slice_of,
    take,
    take_in_place,
)
from collectives.executors.streaming import stream_bytes

WAITS, DONE, OUT_OF_TURN, _NOT_DIRECT = range(4)
"""What a run says: it must wait, or has for long; it is done; another plan, DUE, comes first."""

_DIRECT_COME, _DIRECT_DONE, _STAGED, _SLICED, _OUT_OF_TURN = 1, 2, 3, 4, 5

_SLOTS = 4

_WINDOW, _OFFSET, _PLANS = 1, 2, 3  # behind a flag; of the plans of two runs, by turns
_LINE = 5

PATIENCE = 50_000_000
"""Nanoseconds after which a wait goes back to Python, which handles the signals that have come."""

_LOOKS = 16  # at a flag, between two at the clock
_CLOCK_MONOTONIC = 1  # of Linux

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))


@inlined
def _now(memory: int) -> int:
    """Return a time in nanoseconds."""
    _clock_gettime(_CLOCK_MONOTONIC, memory)
    time = carray(pointer_i64(memory), 2)
    return time[0] * 1_000_000_000 + time[1]


@compiled
def _have_come(segments: Any, size: int, step: int, spin: int, may_wait: bool, clock: int) -> bool:
    """Return whether all flags are at ``step``; wait for them, if that is allowed.

    Not for ever: only Python can handle a signal.
    """
    for q in range(size):
        looks = since = 0
        while load_acquire(segments[q]) < step:
            if not may_wait:
                return False
            looks += 1
            if looks <= spin:
                relax()
                continue
            _sched_yield()
            if looks % _LOOKS == 0:
                now = _now(clock)
                if since == 0:
                    since = now
                elif now - since > PATIENCE:
                    return False
    return True


@inlined
def _agree(state: Any, segments: Any, sequence: Any) -> bool:
    """Return whether all ranks run the same plan; all have raised their first flag."""
    at = _PLANS + sequence[1] % 2
    state[f.DUE] = carray(pointer_i64(segments[0]), _LINE)[at]
    for q in range(1, state[f.SIZE]):
        if carray(pointer_i64(segments[q]), _LINE)[at] != state[f.DUE]:
            return False
    return True


@inlined
def _fill(sources: Any, segments: Any, size: int, at: int) -> None:
    for q in range(size):
        sources[q] = segments[q] + at


@compiled
def _run_direct(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    """See whether all data lie in windows; if so take them there."""
    size, rank, base = state[f.SIZE], state[f.RANK], sequence[0]
    may_wait = state[f.MAY_WAIT] != 0
    if state[f.PHASE] == _DIRECT_COME:
        if state[f.GIVEN] == 0:
            mine = carray(pointer_i64(segments[rank]), _LINE)
            mine[_WINDOW] = state[f.WINDOW]
            mine[_OFFSET] = state[f.OFFSET]
            store_release(segments[rank], base + 1)
            state[f.GIVEN] = 1
        if not _have_come(segments, size, base + 1, state[f.SPIN], may_wait, state[f.CLOCK]):
            return WAITS
        if not _agree(state, segments, sequence):
            return OUT_OF_TURN
        state[f.GIVEN] = 0
        tables = carray(pointer_i64(state[f.TABLE]), 1)[0]
        for q in range(size):
            if state[f.GIVER] >= 0 and state[f.GIVER] != q:
                continue
            line = carray(pointer_i64(segments[q]), _LINE)
            if line[_WINDOW] < 0:
                sequence[0] = base + 1
                return _NOT_DIRECT
            table = carray(pointer_i64(tables + 8 * size * line[_WINDOW]), size)
            sources[q] = table[q] + line[_OFFSET]
        take_in_place(state, sources)
        store_release(segments[rank], base + 2)
        state[f.PHASE] = _DIRECT_DONE
    if not _have_come(segments, size, base + 2, state[f.SPIN], may_wait, state[f.CLOCK]):
        return WAITS
    sequence[0] = base + 2
    return DONE


@compiled
def _run_staged(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    size, rank, base, pieces = state[f.SIZE], state[f.RANK], sequence[0], state[f.PIECES]
    may_wait = state[f.MAY_WAIT] != 0
    i = state[f.ITERATION]
    while i <= pieces:
        step = base + i + 1
        if i < pieces and state[f.GIVEN] == 0:
            slot = segments[rank] + state[f.SLOTS_AT] + (step % _SLOTS) * state[f.SLOT_BYTES]
            give(state, slot, i)
            store_release(segments[rank], step)
        if i > 0:
            if not _have_come(segments, size, step - 1, state[f.SPIN], may_wait, state[f.CLOCK]):
                state[f.ITERATION] = i
                state[f.GIVEN] = 1
                return WAITS
            if i == 1 and not _agree(state, segments, sequence):
                return OUT_OF_TURN
            at = state[f.SLOTS_AT] + ((step - 1) % _SLOTS) * state[f.SLOT_BYTES]
            _fill(sources, segments, size, at)
            take(state, sources, i - 1)
        state[f.GIVEN] = 0
        i += 1
    sequence[0] = base + pieces
    return DONE


@compiled
def _run_sliced(state: Any, segments: Any, sources: Any, sequence: Any) -> int:
    """An allreduce in which each rank reduces a slice of each piece."""
    size, rank, base, pieces = state[f.SIZE], state[f.RANK], sequence[0], state[f.PIECES]
    item, slot_bytes, piece_bytes = state[f.ITEM], state[f.SLOT_BYTES], state[f.PIECE_BYTES]
    total = carray(pointer_i64(state[f.SEND_BYTES]), 1)[0]
    may_wait = state[f.MAY_WAIT] != 0
    i = state[f.ITERATION]
    while i <= pieces + 2:
        step = base + i + 1
        if i <= pieces + 1 and state[f.GIVEN] == 0:
            if i < pieces:
                slot = segments[rank] + state[f.SLOTS_AT] + (step % _SLOTS) * slot_bytes
                give(state, slot, i)
            store_release(segments[rank], step)
        if i > 0:
            if not _have_come(segments, size, step - 1, state[f.SPIN], may_wait, state[f.CLOCK]):
                state[f.ITERATION] = i
                state[f.GIVEN] = 1
                return WAITS
            if i == 1 and not _agree(state, segments, sequence):
                return OUT_OF_TURN
            if i - 1 < pieces:
                count = length_of(total, i - 1, piece_bytes) // item
                lo, hi = slice_of(count, rank, size, item)
                slot = ((step - 1) % _SLOTS) * slot_bytes
                _fill(sources, segments, size, state[f.SLOTS_AT] + slot)
                result = segments[rank] + state[f.RESULTS_AT] + slot
                # By way of the target, which takes its own slice too: it is this rank's alone.
                own = state[f.TARGET] + (i - 1) * piece_bytes + lo * item
                reduce_all(state, sources, lo * item, own, hi - lo)
                stream_bytes(result, own, (hi - lo) * item)
            if i >= 3:
                start = (i - 3) * piece_bytes
                count = length_of(total, i - 3, piece_bytes) // item
                slot = ((step - 3) % _SLOTS) * slot_bytes
                for q in range(size):
                    lo, hi = slice_of(count, q, size, item)
                    if q != rank:
                        copy_bytes(
                            state[f.TARGET] + start + lo * item,
                            segments[q] + state[f.RESULTS_AT] + slot,
                            (hi - lo) * item,
                        )
        state[f.GIVEN] = 0
        i += 1
    sequence[0] = base + pieces + 2
    return DONE


@compiled
def _run_nothing(state: Any, segments: Any, sequence: Any) -> int:
    """Take the two steps of a run that is not due, in which nothing is done."""
    step = sequence[0] + 2
    store_release(segments[state[f.RANK]], step)
    may_wait = state[f.MAY_WAIT] != 0
    if not _have_come(segments, state[f.SIZE], step, state[f.SPIN], may_wait, state[f.CLOCK]):
        return WAITS
    sequence[0] = step
    return OUT_OF_TURN


@njit("int64(int64)", nogil=True, cache=True, error_model="numpy")
def run(address: int) -> int:
    """Run the collective of a state, at its address; return WAITS, DONE or OUT_OF_TURN.

    A new run begins with PHASE at 0, where one leaves it that is done or out of turn.
    """
    state = carray(pointer_i64(address), f.FIELDS)
    size = state[f.SIZE]
    segments = carray(pointer_i64(state[f.SEGMENTS]), size)
    sources = carray(pointer_i64(state[f.SEGMENTS] + 8 * size), size)
    sequence = carray(pointer_i64(state[f.SEQUENCE]), 2)
    if state[f.PHASE] == 0:
        state[f.ITERATION] = 0
        state[f.GIVEN] = 0
        mine = carray(pointer_i64(segments[state[f.RANK]]), _LINE)
        mine[_PLANS + sequence[1] % 2] = state[f.PLAN]
        state[f.PHASE] = (
            _DIRECT_COME if state[f.DIRECT] != 0 else _SLICED if state[f.SLICED] != 0 else _STAGED
        )
    said = _NOT_DIRECT
    if state[f.PHASE] <= _DIRECT_DONE:
        said = _run_direct(state, segments, sources, sequence)
        if said == _NOT_DIRECT:
            state[f.PHASE] = _SLICED if state[f.SLICED] != 0 else _STAGED
    if state[f.PHASE] == _SLICED:
        said = _run_sliced(state, segments, sources, sequence)
    elif state[f.PHASE] == _STAGED:
        said = _run_staged(state, segments, sources, sequence)
    if said == OUT_OF_TURN:
        state[f.PHASE] = _OUT_OF_TURN
    if state[f.PHASE] == _OUT_OF_TURN:
        said = _run_nothing(state, segments, sequence)
    if said != WAITS:
        state[f.PHASE] = 0
        sequence[1] += 1
    state[f.SAID] = said
    return said
