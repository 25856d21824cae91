"""The state of a run in shared memory: numbers and addresses, in an int64 array.

Where the compiled code of `collectives.executors.together` is kept on disk, only a change of that
file makes it anew.
"""

from __future__ import annotations

(
    PLAN,
    DUE,
    SAID,
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
    CLOCK,
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
) = range(46)
"""The fields of a state.

- PLAN: number of the plan. DUE: that of the plan which the first rank runs.
- SAID: what `collectives.executors.together.run` has returned last.
- PHASE, ITERATION, GIVEN: where a run that may not wait goes on.
- SEQUENCE: address of the counts of steps and of runs, common to all plans on a node.
- SEGMENTS: address of the addresses of all ranks' flags; behind them, at SLOTS_AT and RESULTS_AT,
  are the slots, each of SLOT_BYTES.
- TABLE: address of the address of the addresses of all windows, rank by rank.
- SPIN: looks at a flag before the core is given to others. CLOCK: address of memory for a time.
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
