"""Prove a schedule for one number of ranks, by running it on tokens.

Checked in each round: the steps are inside the data; every send meets its receive in the same
round, with the same blocks; no step overwrites what another step of the round reads or writes;
nothing is sent before it is there. Checked at the end: each output block holds each contribution
exactly once. A failure names rank, round and block.

What is proved holds for any data, any length and any commutative and associative operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from collectives.collective import Collective, Mask, Tokens
from collectives.interpret import apply_round
from collectives.registry import Algorithm
from collectives.step import Recv, Reduce, Round, Send, Step, Zero, rounds_of


class ScheduleError(ValueError):
    """A schedule does not do what its collective promises. The message says where."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved: counts over all ranks, messages to oneself left out."""

    collective: str
    algorithm: str
    size: int
    rounds: int
    messages: int


def verify(algorithm: Algorithm, size: int) -> Proof:
    """Prove an algorithm for ``size`` ranks.

    Raises:
        ScheduleError: it is wrong; the message names the rank, the round and the block.
    """
    blocks = algorithm.blocks(size)
    schedule = [rounds_of(algorithm.generate, rank, size) for rank in range(size)]
    label = f"{algorithm.collective.name} {algorithm.name}, {size} ranks"
    try:
        verify_schedule(algorithm.collective, schedule, blocks)
    except ScheduleError as error:
        raise ScheduleError(f"{label}: {error}") from None
    sends = sum(
        isinstance(s, Send) and s.peer != rank
        for rank, rounds in enumerate(schedule)
        for steps in rounds
        for s in steps
    )
    return Proof(algorithm.collective.name, algorithm.name, size, len(schedule[0]), sends)


def verify_schedule(
    collective: Collective, schedule: Sequence[Sequence[Round]], blocks: int
) -> None:
    """Prove a schedule, given as a list of rounds for each rank.

    Raises:
        ScheduleError: it is wrong; the message names the rank, the round and the block.
    """
    size = len(schedule)
    state = collective.start(size, blocks)
    defined = collective.given(size, blocks).copy()
    written = np.full((size, blocks), -1)
    for k in range(max(len(rounds) for rounds in schedule)):
        steps = [rounds[k] if k < len(rounds) else [] for rounds in schedule]
        for rank, mine in enumerate(steps):
            _check_local(rank, k, mine, size, blocks)
        check_matching(steps, k, same_blocks=collective.one_space)
        _check_defined(steps, k, defined)
        apply_round(steps, state)
        for rank, mine in enumerate(steps):
            for s in mine:
                if not isinstance(s, Send):
                    defined[rank, s.block : s.block + s.count] = True
                    written[rank, s.block : s.block + s.count] = k
    _check_goal(collective, state, defined, written)
    lengths = [len(rounds) for rounds in schedule]
    if min(lengths) != max(lengths):
        rank = lengths.index(min(lengths))
        raise ScheduleError(
            f"rank {rank}: has {lengths[rank]} rounds where rank "
            f"{lengths.index(max(lengths))} has {max(lengths)}"
        )


def check_matching(steps: Sequence[Round], k: int, *, same_blocks: bool) -> None:
    """Check that in round ``k`` every send of every rank meets its receive.

    Args:
        steps: the steps of each rank in this round.
        k: the number of the round, for the message.
        same_blocks: both sides must name the same blocks; else just as many.

    Raises:
        ScheduleError: a message has no partner, or the two sides differ.
    """
    sends: defaultdict[tuple[int, int], list[Send]] = defaultdict(list)
    receives: defaultdict[tuple[int, int], list[Recv | Reduce]] = defaultdict(list)
    for rank, mine in enumerate(steps):
        for s in mine:
            if isinstance(s, Send):
                sends[rank, int(s.peer)].append(s)
            elif not isinstance(s, Zero):
                receives[int(s.peer), rank].append(s)
    for source, target in sorted(sends.keys() | receives.keys()):
        out, into = sends[source, target], receives[source, target]
        for s, r in zip(out, into, strict=False):
            if s.count != r.count or (same_blocks and s.block != r.block):
                raise ScheduleError(
                    f"rank {target}, round {k}: takes {_span(r)} from rank {source}, "
                    f"which sends {_span(s)}"
                )
        if len(out) > len(into):
            raise ScheduleError(
                f"rank {source}, round {k}: sends {_span(out[len(into)])} to rank {target}, "
                f"which does not receive it in this round"
            )
        if len(into) > len(out):
            raise ScheduleError(
                f"rank {target}, round {k}: waits for {_span(into[len(out)])} from rank {source}, "
                f"which does not send it in this round"
            )


def _check_local(rank: int, k: int, steps: Round, size: int, blocks: int) -> None:
    readers: dict[int, Step] = {}
    for s in steps:
        if not isinstance(s, Zero) and not 0 <= s.peer < size:
            raise ScheduleError(f"rank {rank}, round {k}: {_span(s)} has no such peer: {s.peer}")
        if s.block < 0 or s.count < 0 or s.block + s.count > blocks:
            raise ScheduleError(f"rank {rank}, round {k}: {_span(s)} is outside 0..{blocks - 1}")
        if isinstance(s, Send):
            readers.update((b, s) for b in range(int(s.block), int(s.block + s.count)))
    writers: dict[int, Step] = {}
    for s in steps:
        if isinstance(s, Send):
            continue
        for b in range(int(s.block), int(s.block + s.count)):
            other = writers.get(b)
            if isinstance(s, Recv) and b in readers:
                raise ScheduleError(f"rank {rank}, round {k}: stores into block {b} and sends it")
            # Two reductions into a block, or one into a block just cleared, have one meaning.
            if other is not None and (isinstance(s, Recv) or isinstance(other, Recv)):
                raise ScheduleError(f"rank {rank}, round {k}: writes block {b} twice")
            writers[b] = s


def _check_defined(steps: Sequence[Round], k: int, defined: Mask) -> None:
    for rank, mine in enumerate(steps):
        for s in mine:
            there = defined[rank, s.block : s.block + s.count]
            if isinstance(s, Send | Reduce) and not there.all():
                missing = int(s.block) + int(np.argmin(there))
                verb = "sends" if isinstance(s, Send) else "reduces into"
                raise ScheduleError(
                    f"rank {rank}, round {k}: {verb} block {missing}, which holds nothing yet"
                )


def _check_goal(collective: Collective, state: Tokens, defined: Mask, written: Tokens) -> None:
    size, blocks = defined.shape
    for rank, block in np.argwhere(collective.required(size, blocks)).tolist():
        when = written[rank, block]
        last = "never written" if when < 0 else f"last written in round {when}"
        where = f"rank {rank}, block {block} ({last}) at the end"
        if not defined[rank, block]:
            raise ScheduleError(f"{where}: holds nothing")
        difference = state[rank, block] - collective.goal(rank, block, size, blocks)
        wrong = np.flatnonzero(difference)
        if wrong.size:
            parts = [
                f"block {t % blocks} of rank {t // blocks} "
                + ("is missing" if difference[t] < 0 else f"is there {difference[t]} times more")
                for t in wrong[:3].tolist()
            ]
            more = f", and {wrong.size - 3} more faults" if wrong.size > 3 else ""
            raise ScheduleError(f"{where}: {', '.join(parts)}{more}")


def _span(step: Step) -> str:
    first, last = int(step.block), int(step.block + step.count) - 1
    return f"block {first}" if first == last else f"blocks {first}..{last}"
