"""Prove a schedule for one number of ranks, by running it on tokens.

Checked in each round: the steps are inside the data; every send meets its receive in the same
round, with the same blocks; no step overwrites what another step of the round reads or writes;
nothing is sent before it is there. Checked at the end: each output block holds each contribution
exactly once. A failure names rank, round and block.

What is proved holds for any data, any length and any commutative and associative operation.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.collective import Collective, Mask, Tokens
from collectives.interpret import apply_round
from collectives.registry import Algorithm
from collectives.step import Recv, Reduce, Round, Send, Step, Zero, scalar
from collectives.units import count_text

MAX_COUNTS = 1 << 30
"""A proof keeps two counts of 2 bytes for each rank, block and token; with more it is refused."""

_MANY = 3
"""A count that stands for itself and all above it, so that no count can wrap around to 1."""

_MAX_REDUCTIONS = 8192
"""Into one block in one round: so many times ``_MANY`` still fits into a count."""


class ScheduleError(ValueError):
    """A schedule does not do what its collective promises. The message says where."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved: counts over all ranks, what stays on a rank left out.

    Attributes:
        collective: its name.
        algorithm: its name, with the tunables that are set.
        size: for how many ranks.
        rounds: how many it has.
        messages: how many are sent: one for each pair of ranks, direction and round.
    """

    collective: str
    algorithm: str
    size: int
    rounds: int
    messages: int


def max_rounds(size: int) -> int:
    """Return the number of rounds above which a generator counts as endless."""
    return 64 * size + 4096


def verify(algorithm: Algorithm, size: int) -> Proof:
    """Prove an algorithm for ``size`` ranks.

    Raises:
        TypeError: ``size`` is no int.
        ValueError: ``size`` is below 1, or the proof needs more than `MAX_COUNTS` counts.
        ScheduleError: the algorithm is wrong; the message names the rank, the round and the block.
    """
    size = _whole("size", size)
    label = f"{algorithm.collective.name} {algorithm.spec}, {count_text(size, 'rank')}"
    try:
        blocks = _blocks_of(algorithm, size)
        goals = _goals(algorithm.collective, size, blocks)
        schedule = [_generated(algorithm, rank, size) for rank in range(size)]
        _prove(algorithm.collective, schedule, goals)
    except ScheduleError as error:
        raise ScheduleError(f"{label}: {error}") from error.__cause__
    messages = sum(
        len({s.peer for s in steps if isinstance(s, Send)} - {rank})
        for rank, rounds in enumerate(schedule)
        for steps in rounds
    )
    return Proof(algorithm.collective.name, algorithm.spec, size, len(schedule[0]), messages)


def variants(algorithm: Algorithm, size: int) -> Iterator[Algorithm]:
    """Yield an algorithm with each value of each tunable that is worth a try on ``size`` ranks.

    One tunable is changed at a time; the others keep what they have.
    """
    for key, tunable in algorithm.tunables.items():
        for value in tunable.values(size):
            yield algorithm.tuned(**{key: value})


def verify_schedule(
    collective: Collective, schedule: Sequence[Sequence[Round]], blocks: int
) -> None:
    """Prove a schedule, given as a list of rounds for each rank.

    Raises:
        TypeError: ``blocks`` is no int.
        ValueError: there is no rank or no block, or the proof needs more than `MAX_COUNTS` counts.
        ScheduleError: it is wrong; the message names the rank, the round and the block.
    """
    size = len(schedule)
    if size < 1:
        raise ValueError("schedule: is empty; needs the rounds of at least 1 rank")
    blocks = _whole("blocks", blocks)
    goals = _goals(collective, size, blocks)
    checked = [
        [_checked(rank, k, steps) for k, steps in enumerate(rounds)]
        for rank, rounds in enumerate(schedule)
    ]
    _prove(collective, checked, goals)


def _prove(collective: Collective, schedule: Sequence[Sequence[Round]], goals: Tokens) -> None:
    size, blocks, _ = goals.shape
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
                if isinstance(s, Reduce):
                    counts = state[rank, s.block : s.block + s.count]
                    np.minimum(counts, _MANY, out=counts)
    _check_goals(collective, goals, state, defined, written)
    lengths = [len(rounds) for rounds in schedule]
    if min(lengths) != max(lengths):
        rank = lengths.index(min(lengths))
        raise ScheduleError(
            f"rank {rank}: has {lengths[rank]} rounds where rank "
            f"{lengths.index(max(lengths))} has {max(lengths)}"
        )


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: needs an int") from None
    if number < 1:
        raise ValueError(f"{name}={number}: needs at least 1")
    return number


def _blocks_of(algorithm: Algorithm, size: int) -> int:
    try:
        return _whole(f"blocks({size})", algorithm.blocks(size))
    except Exception as error:
        text = str(error) if isinstance(error, TypeError | ValueError) else repr(error)
        raise ScheduleError(text) from error


def _goals(collective: Collective, size: int, blocks: int) -> Tokens:
    needed = size * blocks * collective.tokens(size, blocks)
    if needed > MAX_COUNTS:
        raise ValueError(
            f"{size} ranks with {blocks} blocks: a proof needs {needed} counts; "
            f"{MAX_COUNTS} are the most that are kept in memory"
        )
    try:
        return collective.goals(size, blocks)
    except ValueError as error:
        raise ScheduleError(str(error)) from error


def _generated(algorithm: Algorithm, rank: int, size: int) -> list[Round]:
    """Return the rounds of one rank, checked to be rounds, with plain ints."""
    found: list[Round] = []
    try:
        rounds = iter(algorithm.generate(rank, size))
    except Exception as error:
        raise ScheduleError(f"rank {rank}, round 0: the generator raises {error!r}") from error
    while True:
        k = len(found)
        try:
            steps = next(rounds)
        except StopIteration:
            return found
        except Exception as error:
            raise ScheduleError(
                f"rank {rank}, round {k}: the generator raises {error!r}"
            ) from error
        if k == max_rounds(size):
            raise ScheduleError(
                f"rank {rank}, round {k}: the generator goes on; {k} rounds are the most for "
                f"{size} ranks"
            )
        found.append(_checked(rank, k, steps))


def _checked(rank: int, k: int, steps: Any) -> Round:
    where = f"rank {rank}, round {k}"
    if not isinstance(steps, list):
        raise ScheduleError(f"{where}: is {_short(steps)}; needs a list of steps")
    found: Round = []
    for s in steps:
        if not isinstance(s, Send | Recv | Reduce | Zero):
            raise ScheduleError(f"{where}: holds {_short(s)}; needs Send, Recv, Reduce or Zero")
        try:
            plain = scalar(s)
        except TypeError as error:
            raise ScheduleError(
                f"{where}: {_short(s)} holds what is not one whole number: {error}"
            ) from error
        if plain is not None and plain.count < 0:
            raise ScheduleError(f"{where}: {_short(s)} has a count below 0")
        if plain is not None:
            found.append(plain)
    return found


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


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
    reductions: Counter[int] = Counter()
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
            reductions[b] += isinstance(s, Reduce)
            if reductions[b] > _MAX_REDUCTIONS:
                raise ScheduleError(
                    f"rank {rank}, round {k}: reduces into block {b} more than "
                    f"{_MAX_REDUCTIONS} times"
                )


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


def _check_goals(
    collective: Collective, goals: Tokens, state: Tokens, defined: Mask, written: Tokens
) -> None:
    size, blocks, _ = goals.shape
    required = collective.required(size, blocks)
    failed = required & (~defined | (state != goals).any(axis=2))
    for rank, block in np.argwhere(failed).tolist():
        when = written[rank, block]
        last = "never written" if when < 0 else f"last written in round {when}"
        where = f"rank {rank}, block {block} ({last}) at the end"
        if not defined[rank, block]:
            raise ScheduleError(f"{where}: holds nothing")
        difference = state[rank, block] - goals[rank, block]
        wrong = np.flatnonzero(difference)
        parts = []
        for t in wrong[:3].tolist():
            origin, b = collective.token(t, block, blocks)
            much = "missing" if difference[t] < 0 else f"there {_times(difference[t])} more"
            parts.append(f"block {b} of rank {origin} is {much}")
        more = f", and {wrong.size - 3} more faults" if wrong.size > 3 else ""
        raise ScheduleError(f"{where}: {', '.join(parts)}{more}")


def _times(difference: int) -> str:
    return f"{difference} times" if difference < _MANY - 1 else f"{difference} or more times"


def _span(step: Step) -> str:
    first, last = int(step.block), int(step.block + step.count) - 1
    return f"block {first}" if first == last else f"blocks {first}..{last}"
