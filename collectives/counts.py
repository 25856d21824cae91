"""How many messages and bytes an algorithm sends, in closed form, for any number of ranks."""

from __future__ import annotations

from fractions import Fraction

from collectives.algorithms.choice import NAME
from collectives.algorithms.hierarchical import allreduce_phases
from collectives.algorithms.leaders import DEALT, Phases, phases_of
from collectives.collective import ALLREDUCE
from collectives.count_formulas import COUNTS, Counts, Number
from collectives.registry import Algorithm

_UNKNOWN = Counts(None, None, None, None)


def counts(algorithm: Algorithm, size: int) -> Counts:
    """Return what an algorithm sends on ``size`` ranks."""
    settings = {key: t.default for key, t in algorithm.tunables.items()} | {**algorithm.settings}
    if algorithm.name != NAME:
        formula = COUNTS.get((algorithm.collective.name, algorithm.name))
        return _UNKNOWN if formula is None else formula(size, settings)
    node = min(int(settings["node"]), size)
    inner, outer = str(settings["inner"]), str(settings["outer"])
    if algorithm.collective is not ALLREDUCE:
        return _through_leaders(phases_of(algorithm.collective, inner, outer), size, node)
    phases = allreduce_phases(size, node, inner, outer)
    return _through_leaders(phases, size, node) if size % node else _lanes(phases, size, node)


def _total(*terms: tuple[Number, Number | None]) -> Number | None:
    """Return the sum of factor times number, or None where a number is not known."""
    known = [factor * number for factor, number in terms if number is not None]
    return sum(known) if len(known) == len(terms) else None


def _lanes(phases: Phases, size: int, node: int) -> Counts:
    """Return the sums where each rank does an allreduce of its part across equally large groups."""
    groups = size // node
    inside = [counts(a, node) for a in (phases.before, phases.after) if a is not None]
    across = counts(phases.across, groups)
    alike = all(c.most_volume is not None and node * c.most_volume == c.volume for c in inside)
    if not alike:
        most: tuple[Number | None, Number | None] = None, None
    else:
        most = (
            _total((1, across.most_messages), *((1, c.most_messages) for c in inside)),
            _total((Fraction(1, node), across.most_volume), *((1, c.most_volume) for c in inside)),
        )
    return Counts(
        most[0],
        _total((node, across.messages), *((groups, c.messages) for c in inside)),
        most[1],
        _total((1, across.volume), *((groups, c.volume) for c in inside)),
    )


def _through_leaders(phases: Phases, size: int, node: int) -> Counts:
    """Return the sums where the first rank of each group talks to those of the others."""
    groups = -(-size // node)
    across = counts(phases.across, groups)
    messages: list[tuple[Number, Number | None]] = [(1, across.messages)]
    # What the last group has to send to others is shorter than the formula thinks.
    uneven = size % node > 0 and phases.across.collective in DEALT
    volume: list[tuple[Number, Number | None]] = [(1, None if uneven else across.volume)]
    for a in [a for a in (phases.before, phases.after) if a is not None]:
        for first in range(0, size, node):
            length = min(node, size - first)
            within = counts(a, length)
            messages.append((1, within.messages))
            part = Fraction(length, size) if a.collective in DEALT else 1
            volume.append((part, within.volume))
    return Counts(None, _total(*messages), None, _total(*volume))
