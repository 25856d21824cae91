"""Write a schedule as GOAL text, which other simulators of networks read.

GOAL is the Group Operation Assembly Language of Hoefler, Siebert & Lumsdaine 2009, in the text
form of LogGOPSim (Hoefler, Schneider & Lumsdaine 2010): for each rank the messages that it sends
and receives, the time that it computes, in nanoseconds, and what must be done before what. Here a
round requires all of the round before, a message has its round as its tag, and steps of a round
between the same two ranks, in the same direction, are one message. The other costs are for the
reader to give; LogGOPSim adds g to the bytes of a message, which `collectives.simulate` does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from collectives.extent import Extent
from collectives.model import Model
from collectives.registry import Algorithm
from collectives.step import Reduce, Round, Send, Zero, rounds_of
from collectives.units import count_text


def goal_lines(
    algorithm: Algorithm,
    size: int,
    nbytes: int,
    model: Model | None = None,
    *,
    element_bytes: int = 1,
) -> Iterator[str]:
    """Yield the lines of the schedule, without line ends.

    Args:
        algorithm: of the registry, or made by hand.
        size: number of ranks.
        nbytes: length of the buffer of a rank, as `collectives.extent.Extent` says.
        model: how long sums take; nothing else of it is used. Default: ``Model()``.
        element_bytes: blocks are cut between elements of so many bytes.

    Raises:
        ValueError: a number is out of range.
    """
    if size < 1:
        raise ValueError(f"size={size}: needs at least 1 rank")
    extent = Extent(algorithm, size, nbytes, element_bytes)
    nanoseconds = 1e9 * (model if model is not None else Model()).reduce_time
    ranks = count_text(size, "rank")
    yield f"// {algorithm.collective.name} {algorithm.spec}, {ranks}, {nbytes} bytes"
    yield f"num_ranks {size}"
    for rank in range(size):
        yield ""
        yield f"rank {rank} {{"
        yield from _rank_lines(rank, rounds_of(algorithm.generate, rank, size), extent, nanoseconds)
        yield "}"


def _rank_lines(
    rank: int, rounds: list[Round], extent: Extent, nanoseconds: float
) -> Iterator[str]:
    """Yield what one rank does; ``nanoseconds`` is the time to reduce a byte."""
    number = 0  # of the last operation
    before: list[int] = []  # the operations that those of this round require
    for k, steps in enumerate(rounds):
        done: list[int] = []
        for peer, (length, _) in _messages(steps, extent, sending=True).items():
            if peer != rank:
                number += 1
                yield f"l{number}: send {length}b to {peer} tag {k}"
                yield from _requires(number, before)
                done.append(number)
        for peer, (length, reduced) in _messages(steps, extent, sending=False).items():
            needs = before
            if peer != rank:
                number += 1
                yield f"l{number}: recv {length}b from {peer} tag {k}"
                yield from _requires(number, before)
                needs = [number]
            if reduced:
                number += 1
                yield f"l{number}: calc {round(reduced * nanoseconds)}"
                yield from _requires(number, needs)
                done.append(number)
            elif needs is not before:
                done += needs
        if len(done) > 2:  # one operation that stands for all keeps the requirements few
            number += 1
            yield f"l{number}: calc 0"
            yield from _requires(number, done)
            done = [number]
        before = done or before


def _requires(number: int, before: list[int]) -> Iterator[str]:
    for other in before:
        yield f"l{number} requires l{other}"


def _messages(steps: Round, extent: Extent, *, sending: bool) -> dict[int, tuple[int, int]]:
    """Return for each peer the bytes that go one way, and how many of them are reduced."""
    found: dict[int, tuple[int, int]] = {}
    for s in steps:
        if isinstance(s, Zero) or isinstance(s, Send) != sending:
            continue
        length = round(extent.of(s.block, s.count))
        if length:  # where there is no data to move no message is sent
            peer = int(s.peer)
            before, reduced = found.get(peer, (0, 0))
            found[peer] = before + length, reduced + length * isinstance(s, Reduce)
    return found
