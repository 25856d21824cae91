"""Print the counts of a program, beside what other algorithms would have taken."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES
from collectives.intracomm.report import Shape, Site, Tally, Way
from collectives.registry import REGISTRY
from collectives.select import models_of, predicted
from collectives.table import Table
from collectives.units import count_text, time_text

OTHERS = 3
"""So many different times of other algorithms are shown: the shortest."""

SHAPES = 3
"""So many lengths of one place are shown: those that took most time."""

NAMES = 3
"""So many algorithms of one time are named."""

_INDENT = " " * 38


class Price(NamedTuple):
    """What a call would have taken.

    Attributes:
        way: algorithm and executor.
        seconds: of a call.
    """

    way: Way
    seconds: float


def report_text(
    sites: Mapping[Site, Tally], table: Table | None = None, *, own_cores: bool = True
) -> str:
    """Return the counts for people to read, the slowest place first.

    Args:
        sites: the counts of all ranks (see `collectives.intracomm.report.Report.gather`).
        table: what was measured, and whose models predict; None: the models that
            `collectives.select` has.
        own_cores: each rank has a core, as the models suppose.
    """
    if not sites:
        return "No collective on buffers was called.\n"
    models = "those of the table" if table is not None else "rough ones; 'tune' makes your own"
    lines = [
        "Collectives on buffers: calls, bytes and time, each of the rank that has most of it.",
        "bytes: length of the longer buffer of a rank, all calls together.",
        "time: in the calls, and in Wait and Test of their requests, whoever does them; with what",
        "they wait for ranks that come late. A call of a persistent form is a Start. Waitall and",
        "its like cannot be seen, nor a Startall of what is the library's.",
        "each: without the first call of a length, which makes a plan and may compile code.",
        f"model: what the models of messages say ({models}), not a measurement.",
    ]
    if not own_cores:
        lines.append("There are more ranks than cores, of which the models know nothing.")
    lines += ["", f"{'time':>12} {'calls':>8} {'bytes':>14}  where"]
    for site, tally in sorted(sites.items(), key=lambda item: -item[1].seconds):
        where = f"{_short(site.file)}:{site.line} {site.call}"
        lines.append(f"{_time(tally.seconds):>12} {tally.calls:>8} {tally.nbytes:>14}  {where}")
        lines += [_INDENT + line for line in _details(tally, table)]
    return "\n".join(lines) + "\n"


def _details(tally: Tally, table: Table | None) -> list[str]:
    if not tally.calls:
        return ["no Start was seen"]
    done = "done by " + ", ".join(f"{_named(way)} x{n}" for way, n in tally.ways.most_common())
    by_memory = any(way.executor == "shared" for way in tally.ways)
    shapes = sorted(tally.shapes, key=lambda shape: -tally.later.get(shape, 0.0))
    if len(shapes) == 1:
        each = tally.each(shapes[0])
        took = "" if each is None else f": {_time(each)} each"
        return [f"{done}{took}", *_others(shapes[0], by_memory, table)]
    lines = [done]
    for shape in shapes[:SHAPES]:
        each = tally.each(shape)
        took = "" if each is None else f": {_time(each)} each"
        lines.append(f"{_shape_text(shape, shapes)} x{tally.shapes[shape]}{took}")
        lines += [f"  {line}" for line in _others(shape, by_memory, table)]
    if len(shapes) > SHAPES:
        lines.append(f"and {count_text(len(shapes) - SHAPES, 'other length')}")
    return lines


def _shape_text(shape: Shape | None, among: Sequence[Shape | None]) -> str:
    if shape is None:
        return "arguments that cannot be read here"
    ranks = {other.ranks for other in among if other is not None}
    on = f" on {count_text(shape.ranks, 'rank')}" if len(ranks) > 1 else ""
    return f"{count_text(shape.nbytes, 'byte')}{on}"


def _others(shape: Shape | None, by_memory: bool, table: Table | None) -> list[str]:
    """Return a line that tells what other ways would have taken, if that is known."""
    if shape is None:
        return []
    if shape.ranks == 1:
        return ["one rank alone: there is nothing to send"]
    measured = [] if table is None else measurements(shape, table)
    if measured:
        return [f"table: {_shown(measured)}"]
    note = " (by messages; shared memory has no model)" if by_memory else ""
    return [f"model: {_shown(predictions(shape, table))}{note}"]


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


def _shown(prices: Sequence[Price]) -> str:
    """Return the shortest times, each with the ways that take it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for way, seconds in prices:
        groups.setdefault((_time(seconds), way.executor), []).append(way.algorithm)
    texts = []
    for (time, executor), names in list(groups.items())[:OTHERS]:
        more = f", {len(names) - NAMES} more" if len(names) > NAMES else ""
        texts.append(f"{', '.join(names[:NAMES])}{more} ({executor}) {time}")
    return "; ".join(texts)


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
