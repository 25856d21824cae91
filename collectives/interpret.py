"""Run a schedule of all ranks in one process, on one array: the meaning of the rounds' contract.

`verify` runs it on token counts; the tests run it on numbers and compare every executor with it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from collectives.op import SUM, Op
from collectives.step import Recv, Reduce, Round, Send, Zero


def apply_round(steps: Sequence[Round], state: npt.NDArray[Any], op: Op = SUM) -> None:
    """Carry out one round of all ranks, in place.

    Args:
        steps: the steps of each rank.
        state: shape (ranks, blocks, ...): what each rank holds in each block.
        op: what ``Reduce`` does.

    Raises:
        IndexError: a receive finds no message.
    """
    wire: defaultdict[tuple[int, int], deque[npt.NDArray[Any]]] = defaultdict(deque)
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Send):
                wire[rank, int(s.peer)].append(state[rank, s.block : s.block + s.count].copy())
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Zero):
                state[rank, s.block : s.block + s.count] = 0
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Recv):
                state[rank, s.block : s.block + s.count] = wire[int(s.peer), rank].popleft()
            elif isinstance(s, Reduce):
                arrived = wire[int(s.peer), rank].popleft()
                held = state[rank, s.block : s.block + s.count]
                op(np, *((arrived, held) if s.peer < rank else (held, arrived)), held)


def interpret(
    schedule: Sequence[Sequence[Round]], state: npt.NDArray[Any], op: Op = SUM
) -> npt.NDArray[Any]:
    """Run the schedule (a list of rounds for each rank) on a copy of the state and return it."""
    state = state.copy()
    for steps in zip(*schedule, strict=True):
        apply_round(steps, state, op)
    return state
