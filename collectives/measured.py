"""What was timed at the lengths of one collective, and the section of a table that it makes.

A table rules what "auto" takes. So it holds another way than that which "auto" takes without a
table only where that is clearly faster (see `collectives.compare`), by runs of the same
repetitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collectives.compare import clearly_faster
from collectives.table import Breakpoint, Section, Way, breakpoints_of, interpolated
from collectives.trials import AT_ONCE, Timer, Trial

NEAR = 1.4
"""A way that is so many times slower than the best at first sight is not timed again."""

_FIRST = 0.4  # of the budget: to find those near the best
_UNTRUSTED = 0.5  # of the runs: where more were disturbed, and count, they say nothing
_BARRED = 1.4  # so many times slower than the best at least counts a way that is not to be taken


@dataclass(frozen=True, slots=True, eq=False)
class Length:
    """What was timed at one length.

    Attributes:
        own: what "auto" takes without a table; None: not known.
        together: one of each way, from the same repetitions; at least one.
        before: seconds of the ways that were timed before that only, as they were too slow.
        own_cores: each rank has a core; else that a rank loses it tells nothing of other programs.
    """

    own: Way | None
    together: tuple[Trial, ...]
    before: Mapping[Way, float]
    own_cores: bool = True

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer of a rank."""
        return self.together[0].bytes

    @property
    def seconds(self) -> dict[Way, float]:
        """The median of each way."""
        return {**self.before, **{t.way: t.median for t in self.together}}

    @property
    def disturbed(self) -> float:
        """The part of the runs, 0 to 1, in which a rank lost its core to another program.

        Of those that decide: what "auto" takes by itself, and the fastest.
        """
        if not self.own_cores:
            return 0.0
        return max(t.disturbed for t in self._decisive)

    @property
    def trusted(self) -> bool:
        """Whether the runs say something."""
        calm = all(t.calm for t in self._decisive)
        return calm or self.disturbed <= _UNTRUSTED

    @property
    def _decisive(self) -> list[Trial]:
        fastest = min(self.together, key=lambda t: t.median)
        return [t for t in self.together if t is fastest or t.way == self.own]

    @property
    def allowed(self) -> frozenset[Way]:
        """The ways that a table may hold for this length."""
        own = next((t for t in self.together if t.way == self.own), None)
        if not self.trusted:
            return frozenset() if own is None else frozenset([own.way])
        if own is None:
            return frozenset(t.way for t in self.together)
        faster = (t.way for t in self.together if clearly_faster(t.seconds, own.seconds))
        return frozenset([own.way, *faster])


def time_length(
    timer: Timer,
    nbytes: int,
    own: Way | None,
    ways: Sequence[Way],
    budget: float,
    *,
    own_cores: bool,
) -> Length | None:
    """Time ways at a length. Collective; all ranks get the same.

    Where they are too many to take turns, each is timed a few times beside what "auto" takes
    first, and those near the best take turns then.

    Args:
        timer: of the collective.
        nbytes: the length.
        own: what "auto" takes without a table; None: not known.
        ways: those to time, and that.
        budget: seconds for the repetitions.
        own_cores: each rank has a core.

    Returns:
        None where no way can be had.
    """
    base = [] if own is None else [own]
    others = [w for w in ways if w != own]
    ratios: dict[Way, float] = {}
    at_once = AT_ONCE - len(base)
    if len(others) > at_once:
        groups = [others[i : i + at_once] for i in range(0, len(others), at_once)]
        for group in groups:
            trials = timer.time(nbytes, base + group, _FIRST * budget / len(groups), 2, 10)
            mine = {t.way: t.median for t in trials}
            one = mine.get(own, 1.0) if own is not None else 1.0
            # Of different groups only what each has to the same way can be compared.
            ratios |= {way: seconds / one for way, seconds in mine.items() if way != own}
        budget *= 1 - _FIRST
        best = min([*ratios.values(), *(1.0 for _ in base)], default=1.0)
        ranked = sorted(ratios, key=lambda way: ratios[way])
        others = [w for w in ranked if ratios[w] <= NEAR * best][:at_once]
    together = timer.time(nbytes, base + others, budget, 5, 1000)
    if not together:
        return None
    one = next((t.median for t in together if t.way == own), 1.0)
    timed = {t.way for t in together}
    before = {way: ratio * one for way, ratio in ratios.items() if way not in timed}
    return Length(own, tuple(together), before, own_cores)


def section_of(lengths: Sequence[Length], itemsize: int) -> Section | None:
    """Return the section for one collective and placement.

    A way that was not timed at each of the lengths is left out. None where no way is left at one
    of them, or the runs say nothing at more than half of them.

    Args:
        lengths: in any order; of two that are the same the last one counts.
        itemsize: bytes of an element.
    """
    by_size = dict(sorted((at.nbytes, at) for at in lengths))
    found = list(by_size.values())
    if not found or 2 * sum(not at.trusted for at in found) > len(found):
        return None
    sizes = tuple(by_size)
    times = [at.seconds for at in found]
    seconds = {w: tuple(t[w] for t in times) for w in times[0] if all(w in t for t in times)}
    allowed = [at.allowed & seconds.keys() for at in found]
    if not all(allowed):
        return None
    first = found[0].together[0]
    return Section(
        first.collective,
        first.ranks,
        first.placement,
        itemsize,
        sizes,
        seconds,
        _breakpoints(sizes, seconds, allowed),
    )


def _breakpoints(
    sizes: tuple[int, ...],
    seconds: Mapping[Way, tuple[float, ...]],
    allowed: Sequence[frozenset[Way]],
) -> tuple[Breakpoint, ...]:
    """Return from where on to take which way, of those that are allowed at each size."""
    best = [
        min(mine[i] for way, mine in seconds.items() if way in ways)
        for i, ways in enumerate(allowed)
    ]
    counted = {
        way: [
            t if way in ways else max(t, _BARRED * least)
            for t, ways, least in zip(mine, allowed, best, strict=True)
        ]
        for way, mine in seconds.items()
    }
    return tuple(
        b._replace(seconds=interpolated(sizes, seconds[b.way], b.nbytes))
        for b in breakpoints_of(sizes, counted)
    )
