"""Print the counts of a program, beside what other algorithms would have taken."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES
from collectives.intracomm.forms import can_take
from collectives.intracomm.report import Shape, Site, Tally, Way
from collectives.registry import REGISTRY
from collectives.select import models_of, predicted
from collectives.table import Table
from collectives.units import count_text, time_text

OTHERS = 3
"""So many different times of other algorithms are shown: the shortest. Unless all are wished."""

SHAPES = 3
"""So many lengths of one place are shown, in the same way: those that took most time."""

NAMES = 3
"""So many algorithms of one time are named, in the same way."""

_INDENT = " " * 45


class Price(NamedTuple):
    """What a call would have taken.

    Attributes:
        way: algorithm and executor.
        seconds: of a call.
    """

    way: Way
    seconds: float


def report_text(
    sites: Mapping[Site, Tally],
    table: Table | None = None,
    *,
    own_cores: bool = True,
    every: bool = False,
) -> str:
    """Return the counts for people to read, the slowest place first, without first calls.

    Args:
        sites: the counts of all ranks (see `collectives.intracomm.report.Report.gather`).
        table: what was measured, and whose models predict; None: the models that
            `collectives.select` has.
        own_cores: each rank has a core, as the models suppose.
        every: show all lengths, and all algorithms.
    """
    if not sites:
        return "No collective on buffers was called.\n"
    rows = []
    for site, tally in sorted(
        sites.items(), key=lambda item: (-item[1].seconds, -item[1].first_seconds)
    ):
        then = _time(tally.seconds) if tally.seconds else "-"
        times = f"{_time(tally.first_seconds):>9} {then:>9}"
        where = f"{_short(site.file)}:{site.line} {site.call}"
        rows.append(f"{times} {tally.calls:>8} {tally.nbytes:>14}  {where}")
        rows += [_INDENT + line for line in _details(site.call, tally, table, every)]
    lines = [
        "Collectives on buffers: calls, bytes and times, each of the rank that has most of it.",
        "first: time in the first call of a length: it makes a plan, and may load or compile code.",
        "then: time in all others; rows are in the order of this.",
        "Both are times in the calls, and in Wait and Test of their requests, whoever does them;",
        "with what they wait for ranks that come late. A call of a persistent form is a Start.",
        "Waitall and its like cannot be seen, nor a Startall of what is the library's.",
        "bytes: length of the longer buffer of a rank, all calls together.",
        *_sources(table),
        "A call is compared with what it can take: one that does not block cannot share memory.",
    ]
    if not own_cores:
        lines.append("There are more ranks than cores, of which the models know nothing.")
    if any(re.search(r"\d+ (more|slower|other lengths?)\b", row) for row in rows):
        lines.append("more, slower, other lengths: --all shows them.")
    head = f"{'first':>9} {'then':>9} {'calls':>8} {'bytes':>14}  where"
    return "\n".join([*lines, "", head, *rows]) + "\n"


def _sources(table: Table | None) -> list[str]:
    """Return what is to be said of the times of other ways."""
    if table is None:
        return [
            "model: what rough models of messages say, not a measurement; 'tune' makes your own."
        ]
    return [
        f"table: what it has measured ({table.mpi}, {table.date}), on private buffers.",
        "model: where the table has no such case; what its models of messages say, or rough ones.",
    ]


def _details(call: str, tally: Tally, table: Table | None, every: bool) -> list[str]:
    if not tally.calls:
        return ["no Start was seen"]
    done = "done by " + ", ".join(f"{_named(way)} x{n}" for way, n in tally.ways.most_common())
    by_memory = any(way.executor == "shared" for way in tally.ways)
    shapes = sorted(
        tally.shapes, key=lambda shape: (-tally.later.get(shape, 0.0), -tally.first[shape])
    )
    if len(shapes) == 1:
        others = _others(call, shapes[0], by_memory, table, every)
        return [f"{done}: {_took(tally, shapes[0])}", *others]
    lines = [done]
    shown = len(shapes) if every else SHAPES
    for shape in shapes[:shown]:
        what = f"{_shape_text(shape, shapes)} x{tally.shapes[shape]}"
        lines.append(f"{what}: {_took(tally, shape)}")
        lines += [f"  {line}" for line in _others(call, shape, by_memory, table, every)]
    if len(shapes) > shown:
        lines.append(f"and {count_text(len(shapes) - shown, 'other length')}")
    return lines


def _took(tally: Tally, shape: Shape | None) -> str:
    each = tally.each(shape)
    then = "" if each is None else f", then {_time(each)} each"
    return f"first {_time(tally.first[shape])}{then}"


def _shape_text(shape: Shape | None, among: Sequence[Shape | None]) -> str:
    if shape is None:
        return "arguments that cannot be read here"
    ranks = {other.ranks for other in among if other is not None}
    on = f" on {count_text(shape.ranks, 'rank')}" if len(ranks) > 1 else ""
    return f"{count_text(shape.nbytes, 'byte')}{on}"


def _others(
    call: str, shape: Shape | None, by_memory: bool, table: Table | None, every: bool
) -> list[str]:
    """Return lines that tell what other ways would have taken, if that is known."""
    if shape is None:
        return []
    if shape.ranks == 1:
        return ["one rank alone: there is nothing to send"]
    measured = [] if table is None else measurements(shape, table)
    source, note = "table", ""
    prices = [price for price in measured if can_take(call, shape, price.way)]
    if not prices:
        source = "model"
        note = " (by messages; shared memory has no model)" if by_memory else ""
        prices = [p for p in predictions(shape, table) if can_take(call, shape, p.way)]
    groups = _groups(prices, every)
    if not every:
        return [f"{source}: {'; '.join(groups)}{note}"]
    groups[-1] += note
    return [
        f"{source if i == 0 else '':5}{':' if i == 0 else ' '} {g}" for i, g in enumerate(groups)
    ]


def predictions(shape: Shape, table: Table | None = None) -> list[Price]:
    """Return the algorithms that could have done a call, the fastest first.

    The price is that of `collectives.select.predicted`, on the executor on which that is cheapest.
    """
    collective = COLLECTIVES[shape.collective]
    models = models_of(("native", "python"), None, table)
    found = []
    for algorithm in REGISTRY.names(collective):
        prices = [
            Price(
                Way(algorithm, executor),
                predicted(collective, algorithm, shape.ranks, shape.nbytes, model),
            )
            for executor, model in models
        ]
        found.append(min(prices, key=lambda price: price.seconds))
    return sorted(found, key=lambda price: price.seconds)


def measurements(shape: Shape, table: Table) -> list[Price]:
    """Return the ways that the table has for a call, the fastest first.

    They were measured on private buffers of four-byte elements, or what is most like them.
    """
    section = table.find(shape.collective, shape.ranks, "private", 4, shape.nbytes)
    if section is None:
        return []
    prices = [Price(Way(*way), section.measured(way, shape.nbytes)) for way in section.seconds]
    return sorted(prices, key=lambda price: (price.seconds, price.way))


def _groups(prices: Sequence[Price], every: bool) -> list[str]:
    """Return the shortest times, or all, each with the ways that take it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for way, seconds in prices:
        groups.setdefault((_time(seconds), way.executor), []).append(way.algorithm)
    texts = []
    names_shown = len(prices) if every else NAMES
    shown = len(groups) if every else OTHERS
    for (time, executor), names in list(groups.items())[:shown]:
        more = f", {len(names) - names_shown} more" if len(names) > names_shown else ""
        texts.append(f"{', '.join(names[:names_shown])}{more} ({executor}) {time}")
    slower = sum(map(len, list(groups.values())[shown:]))
    return [*texts, f"{slower} slower"] if slower else texts


def _time(seconds: float) -> str:
    return time_text(float(f"{seconds:.3g}"))


def _named(way: Way) -> str:
    return f"{way.algorithm} ({way.executor})" if way.executor else "the library"


def _short(file: str) -> str:
    """Return a file as it is seen from here, where that is shorter."""
    try:
        return min(file, os.path.relpath(file), key=len)
    except ValueError:  # on another drive
        return file
