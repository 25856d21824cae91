"""What is said about calls of several ranks that are not the same call."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import groupby

LONGEST = 400
"""Characters of a value that are shown; longer ones are cut, and told apart by a digest."""

SHOWN = 4
"""How many different values, or errors, one message shows."""

DISAGREE = "ranks disagree: "
"""What follows names each argument that differs, with its values and the ranks that have them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as one rank makes it.

    Attributes:
        collective: what is called.
        arguments: as texts, by name; those that must be the same on all ranks.
        error: what is wrong with the call; "" where it is right.
    """

    collective: str
    arguments: Mapping[str, str]
    error: str = ""

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.collective}({inside})"


def shortened(text: str) -> str:
    """Return a text, cut where it is too long to show, with a digest of the whole."""
    if len(text) <= LONGEST:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{text[:LONGEST]}... ({len(text)} characters, digest {digest})"


def complaint(
    calls: Mapping[int, Call], absent: Collection[int], left: Collection[int], seconds: float
) -> str:
    """Return what is wrong with the calls of all ranks; "" where nothing is.

    Args:
        calls: by rank.
        absent: ranks that have not come within ``seconds``.
        left: ranks that came and have not waited for the others.
        seconds: how long was waited.
    """
    right = {rank: call for rank, call in sorted(calls.items()) if not call.error}
    parts = _errors(calls)
    found = _differences({rank: call.collective for rank, call in right.items()}, "collective")
    if not found:
        names = {name: None for call in right.values() for name in call.arguments}
        for name in names:
            values = {r: c.arguments.get(name, "not given") for r, c in right.items()}
            found += _differences(values, name)
    if found:
        parts.append(DISAGREE + ". ".join(found))
    if absent:
        parts.append(f"{list_ranks(absent)} did not come within {seconds:g} s")
    if left:
        parts.append(f"{list_ranks(left)} waited no longer for rank 0")
    if not parts:
        return ""
    collectives = {call.collective for call in calls.values()}
    prefix = f"{collectives.pop()}: " if len(collectives) == 1 else ""
    return prefix + ". ".join(parts)


def list_ranks(ranks: Collection[int]) -> str:
    """Return ranks as words: "rank 1", "ranks 0, 2, 3", "ranks 0-7, 9"."""
    runs = []
    for _, group in groupby(enumerate(sorted(ranks)), lambda pair: pair[1] - pair[0]):
        run = [rank for _, rank in group]
        runs += [f"{run[0]}-{run[-1]}"] if len(run) > 3 else [str(rank) for rank in run]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(runs)


def _differences(values: Mapping[int, str], name: str) -> list[str]:
    """Return "dtype: float32 on ranks 0, 2; float64 on rank 1", or nothing where all are alike."""
    ranks: dict[str, list[int]] = {}
    for rank, value in values.items():
        ranks.setdefault(value, []).append(rank)
    if len(ranks) < 2:
        return []
    shown = [f"{value} on {list_ranks(who)}" for value, who in list(ranks.items())[:SHOWN]]
    more = f"; {len(ranks) - SHOWN} other values" if len(ranks) > SHOWN else ""
    return [f"{name}: {'; '.join(shown)}{more}"]


def _errors(calls: Mapping[int, Call]) -> list[str]:
    wrong = {rank: call.error for rank, call in sorted(calls.items()) if call.error}
    parts = [f"rank {rank} refuses the call: {error}" for rank, error in wrong.items()][:SHOWN]
    if len(wrong) > SHOWN:
        parts.append(f"{len(wrong) - SHOWN} other ranks refuse it too")
    return parts
