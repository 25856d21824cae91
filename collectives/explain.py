"""Say why an algorithm is chosen: all candidates, with the predicted and the measured time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import ALLREDUCE, BARRIER, Collective
from collectives.libraries import BETWEEN, INSIDE, LONG, QUICK, cut, messages_are_quicker
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.select import (
    TUNED,
    Choice,
    choose,
    models_of,
    predicted,
    variants,
)
from collectives.table import Section, Table, Way
from collectives.topology import Topology
from collectives.units import bytes_text, count_text, model_lines

SHOWN = 3
"""So many algorithms that take equally long are named in a line."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way that could have been chosen.

    Attributes:
        way: algorithm and executor.
        predicted: seconds by the model; None where the executor has none.
        measured: seconds by the table; None where it was not measured.
    """

    way: Way
    predicted: float | None
    measured: float | None


SHARED = Way("direct", "shared")
"""What is taken on one node where no table says otherwise, for most lengths. No model knows it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a choice was made.

    Attributes:
        title: the case.
        choice: what was chosen; where ``shared`` is true, of the ways that send messages.
        why: in a few sentences.
        candidates: those that could have been, the measured ones first, the fastest first.
        shared: whether `SHARED` is taken instead, if all ranks are on one node and have numba.
        asked: algorithms that were asked for, with any tunables.
    """

    title: str
    choice: Choice
    why: str
    candidates: tuple[Candidate, ...]
    shared: bool = False
    asked: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The explanation as lines, the chosen candidate marked with ``*``; equals share a line.

        Where algorithms were asked for, lines with neither them nor the chosen one are left out.
        """
        return self._text(every=False)

    @property
    def whole(self) -> str:
        """The same with all candidates, each in a line of its own."""
        return self._text(every=True)

    def _text(self, *, every: bool) -> str:
        first = self.choice.algorithm, self.choice.executor
        wanted = {self.choice.algorithm, *(spec.partition(":")[0] for spec in self.asked)}
        rows = [("", "algorithm", "executor", "predicted us", "measured us")]
        for group in [[c] for c in self.candidates] if every else _equals(self.candidates):
            ways = [c.way for c in group]
            chosen = SHARED if self.shared else first
            mark = "*" if chosen in ways else ""
            these = [way for way in ways if wanted & {*_names(way.algorithm)}]
            if self.asked and not (every or these or chosen in ways):
                continue
            ways.sort(key=lambda way: (way not in (chosen, first), way not in these))
            names = [way.algorithm for way in ways]
            more = f", {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            times = _us(group[0].predicted), _us(group[0].measured)
            rows.append((mark, ", ".join(names[:SHOWN]) + more, ways[0].executor, *times))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if i > 2 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join((self.title, self.why, "", *lines))


def _names(spec: str) -> tuple[str, str]:
    return spec, spec.partition(":")[0]


def _equals(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the candidates in groups that differ in nothing that is shown but the algorithm."""
    groups: dict[tuple[str, str, str], list[Candidate]] = {}
    for c in candidates:
        key = c.way.executor, _us(c.predicted), _us(c.measured)
        groups.setdefault(key, []).append(c)
    return list(groups.values())


def explain(
    collective: Collective,
    size: int,
    nbytes: int,
    *,
    model: Model | Topology | None = None,
    table: Table | None = None,
    executors: tuple[str, ...] = ("native", "python"),
    placement: str = "private",
    itemsize: int = 4,
    asked: Sequence[str] = (),
) -> Explanation:
    """Say which way ``algorithm="auto"`` takes, and why.

    The arguments and errors are those of `collectives.select.choose`. With "shared" among the
    executors it is also said when that is taken without a measurement. Of algorithms that are
    ``asked`` for, the price and the place among all are told too.
    """
    choice = choose(
        collective,
        size,
        nbytes,
        model=model,
        table=table,
        executors=executors,
        placement=placement,
        itemsize=itemsize,
    )
    section = None
    if table is not None:
        section = table.find(collective.name, size, placement, itemsize, nbytes)
    models = dict(models_of(executors, model, table))
    specs = variants(collective, size) if size <= TUNED else iter(REGISTRY.names(collective))
    ways = [Way(spec, executor) for spec in (*specs, *asked) for executor in models]
    if section is not None:
        ways += [w for w in section.seconds if w.executor in executors]
    candidates = [
        _candidate(way, collective, size, nbytes, models, section) for way in dict.fromkeys(ways)
    ]
    candidates.sort(
        key=lambda c: (
            math.inf if c.measured is None else c.measured,
            math.inf if c.predicted is None else c.predicted,
        )
    )
    places = [_place(spec, candidates) for spec in asked]
    why = _why(choice, candidates, table, section, models, model is not None, size, nbytes)
    if isinstance(model, Topology) and collective is ALLREDUCE:
        why = f"{_about_nodes(size, nbytes, model)}{why}"
    may_share = "shared" in executors and size > 1 and model is None and choice.source == "model"
    shared = may_share and (placement == "window" or nbytes < LONG)
    if may_share:
        why = f"{_about_shared(collective, size, nbytes, placement)}{why}"
    if shared:
        # What takes no time that is known stands first all the same: it is what is taken.
        candidates.insert(0, Candidate(SHARED, None, None))
    of = count_text(size, "rank")
    case = [] if collective is BARRIER else [f"{nbytes} bytes", f"{placement} buffers"]
    title = ", ".join((f"{collective.name} on {of}", *case))
    return Explanation(
        title, choice, "\n".join((why, *places)), tuple(candidates), shared, tuple(asked)
    )


def _about_nodes(size: int, nbytes: int, topology: Topology) -> str:
    """Return what is taken on several nodes, as `collectives.decide` decides."""
    inside, nodes = min(size, topology.ranks_per_node), topology.nodes(size)
    if inside == 1 or nodes == 1 or size % inside:
        return ""
    part = nbytes // inside
    between = choose(ALLREDUCE, nodes, part, executors=("native",), network=True).algorithm
    rings = {name: cut(part, nodes, name, network=True) for name in BETWEEN}
    others = "".join(f", on {name} {ring}" for name, ring in rings.items() if ring)
    return (
        "On such nodes, with numba, auto takes shared memory inside each, and between them "
        f"{between}{others} (by built-in costs, not by those given).\nOf what sends messages only: "
    )


def _about_shared(collective: Collective, size: int, nbytes: int, placement: str) -> str:
    """Return when shared memory is taken, as `collectives.decide` decides, up to what follows."""
    rings = {}
    if collective is ALLREDUCE and placement == "private":
        rings = {name: ring for name in INSIDE if (ring := cut(nbytes, size, name))}
    if placement == "private" and nbytes >= LONG:
        text = (
            f"From {bytes_text(LONG)} on messages were measured to be quicker than shared memory, "
            "of which there is no model."
        )
        text += "".join(f"\nOn {name} auto takes {ring}." for name, ring in rings.items())
        return f"{text}\n{'Else auto' if rings else 'Auto'} takes "
    text = (
        f"{SHARED.algorithm} on the {SHARED.executor} executor, if all ranks are on one node and "
        "have numba. There is no model of shared memory; 'tune' measures it.\n"
    )
    quick = [name for name in QUICK if messages_are_quicker(nbytes, name)]
    if placement == "private" and quick:
        text += f"On {', '.join(quick)} messages were measured to be quicker at this length.\n"
    text += "".join(f"With messages on {name}: {ring}.\n" for name, ring in rings.items())
    return f"{text}With messages on one node{' else' if rings else ''}: "


def _place(spec: str, candidates: Sequence[Candidate]) -> str:
    """Return a line with the best place of an algorithm among the candidates, which are sorted."""

    def times(c: Candidate) -> tuple[str, str]:
        return _us(c.measured), _us(c.predicted)

    found = next(c for c in candidates if c.way.algorithm == spec)
    equals = [i for i, c in enumerate(candidates, 1) if times(c) == times(found)]
    others = f" with {count_text(len(equals) - 1, 'other')}," if len(equals) > 1 else ""
    what = "predicted" if found.measured is None else "measured"
    took = found.predicted if found.measured is None else found.measured
    return (
        f"{spec} on the {found.way.executor} executor: {_us(took)} us {what}, place {equals[0]}"
        f"{others} of the {len(candidates)} whose times are known."
    )


def _candidate(
    way: Way,
    collective: Collective,
    size: int,
    nbytes: int,
    models: dict[str, Model | Topology],
    section: Section | None,
) -> Candidate:
    price = None
    if way.executor in models and way.algorithm != "auto":
        price = predicted(collective, way.algorithm, size, nbytes, models[way.executor])
    measured = None
    if section is not None and way in section.seconds:
        measured = section.measured(way, nbytes)
    return Candidate(way, price, measured)


def _why(
    choice: Choice,
    candidates: list[Candidate],
    table: Table | None,
    section: Section | None,
    models: dict[str, Model | Topology],
    given: bool,
    size: int,
    nbytes: int,
) -> str:
    chosen = Way(choice.algorithm, choice.executor)
    name = f"{choice.algorithm} on the {choice.executor} executor"
    took = f"{_us(choice.seconds)} us"
    if choice.source == "table" and table is not None and section is not None:
        others = [c for c in candidates if c.measured is not None and c.way != chosen]
        why = f"{name}: measured with {table.mpi} on {table.date}, {took}{_where(section, nbytes)}."
        if others:
            best = others[0]
            ratio = (best.measured or 0.0) / choice.seconds
            why += f" Next: {best.way.algorithm} on {best.way.executor}, {ratio:.2f} x that."
        return why
    if given:
        reason = "the costs are given"
    elif table is None:
        reason = "there is no table"
    elif section is None:
        reason = "the table has no such case, or none near this length"
    else:
        reason = "the table has none on these executors"
    assumed = "\n".join(model_lines(models[choice.executor], size))
    return f"{name}: {reason}, and the model prices it lowest, {took}.\n{assumed}"


def _where(section: Section, nbytes: int) -> str:
    """Return what to say of a measured time: whether it was measured at this very length."""
    if section.collective == BARRIER.name or nbytes in section.sizes:
        return " here"
    below = [n for n in section.sizes if n < nbytes]
    above = [n for n in section.sizes if n > nbytes]
    if not (below and above):
        return f" at {bytes_text(below[-1] if below else above[0])}"
    between = f"{bytes_text(below[-1])} and {bytes_text(above[0])}"
    return f" here, as far as its times at {between} tell"


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.2f}"
