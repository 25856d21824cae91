"""Which ways to do a collective are worth a try on a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collectives.collective import Collective
from collectives.fit import Fit
from collectives.select import predicted, variants
from collectives.table import Way

SHARED = Way("direct", "shared")
"""The shared executor has one way of its own for each collective."""

TRIED = {"native": 8, "python": 4}
"""At most so many ways of an executor that runs schedules, at each length."""

_PLAIN = 1.5  # so many times slower by the model: tried all the same where no tunable is set
_HOPELESS = 4.0  # so many times slower than the best by the model: not tried


def candidates(
    collective: Collective, size: int, sizes: Sequence[int], fits: Mapping[str, Fit]
) -> list[Way]:
    """Return the ways that are worth a try at one of the sizes at least, by their models.

    Those that are the best by their model at some size come first, then those that are second.
    Of settings that make no difference, as of many with two ranks, the first one stays.
    """
    found: list[tuple[int, Way]] = []
    for executor, fit in fits.items():
        prices: dict[tuple[float, ...], str] = {}
        # Plain ones first, so that these stay.
        for spec in sorted(variants(collective, size), key=lambda spec: ":" in spec):
            times = (predicted(collective, spec, size, n, fit.model) for n in sizes)
            prices.setdefault(tuple(times), spec)
        for i in range(len(sizes)):
            ranked = sorted((times[i], spec) for times, spec in prices.items())
            best = ranked[0][0]
            found += [
                (place, Way(spec, executor))
                for place, (t, spec) in enumerate(ranked)
                if (place < TRIED[executor] and t <= _HOPELESS * best)
                or (t <= _PLAIN * best and ":" not in spec)
            ]
    found.sort(key=lambda one: one[0])
    return list(dict.fromkeys(way for _, way in found))
