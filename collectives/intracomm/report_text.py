"""Print the counts of a program, beside what other algorithms would have taken."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES, Collective
from collectives.intracomm.report import Shape, Site, Tally, Way
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.select import models_of, predicted
from collectives.table import Section, Table
from collectives.table import Way as TableWay
from collectives.topology import Topology
from collectives.units import time_text

OTHERS = 3
"""So many different times of other algorithms are shown: the shortest."""

NAMES = 3
"""So many algorithms of one time are named."""

_INDENT = " " * 38


class Price(NamedTuple):
    """What a call would have taken.

    Attributes:
        way: algorithm and executor.
        seconds: of a call, in the mean of all calls.
    """

    way: Way
    seconds: float


def report_text(sites: Mapping[Site, Tally], table: Table | None = None) -> str:
    """Return the counts for people to read, the slowest place first.

    Args:
        sites: the counts of all ranks (see `collectives.intracomm.report.Report.gather`).
        table: what was measured, and whose models predict; None: the models that
            `collectives.select` has.
    """
    if not sites:
        return "No collective on buffers was called.\n"
    models = "those of the table" if table is not None else "rough ones; 'tune' makes your own"
    lines = [
        "Collectives on buffers: calls, bytes and time of the rank that has most of each. Waiting",
        "for ranks that come late counts. The first call of a length, which makes a plan and may",
        "compile code, is left out of what each took. 'model' is what the models of messages say",
        f"({models}), not a measurement.",
        "",
        f"{'time':>12} {'calls':>8} {'bytes':>14}  where",
    ]
    for site, tally in sorted(sites.items(), key=lambda item: -item[1].seconds):
        where = f"{_short(site.file)}:{site.line} {site.call}"
        lines.append(f"{_time(tally.seconds):>12} {tally.calls:>8} {tally.nbytes:>14}  {where}")
        lines += [_INDENT + line for line in _details(tally, table)]
    return "\n".join(lines) + "\n"


def _details(tally: Tally, table: Table | None) -> list[str]:
    done = ", ".join(f"{_named(way)} x{n}" for way, n in tally.ways.most_common())
    each = tally.each
    took = "" if each is None else f": {_time(each)} each"
    lines = [f"done by {done}{took}"]
    measured = [] if table is None else measurements(tally.shapes, table)
    if measured:
        lines.append(f"table: {_shown(measured)}")
    else:
        prices = predictions(tally.shapes, table)
        if prices:
            by_memory = any(way.executor == "shared" for way in tally.ways)
            note = " (by messages; shared memory has no model)" if by_memory else ""
            lines.append(f"model: {_shown(prices)}{note}")
    return lines


def predictions(shapes: Counter[Shape], table: Table | None = None) -> list[Price]:
    """Return the algorithms that could have done all calls, the fastest first.

    The price is that of `collectives.select.predicted`, on the executor on which that is cheapest.
    """
    name = _one_collective(shapes)
    if name is None:
        return []
    collective = COLLECTIVES[name]
    found = []
    for algorithm in REGISTRY.names(collective):
        prices = [
            Price(
                Way(algorithm, executor),
                _mean(shapes, partial(_predicted, collective, algorithm, model)),
            )
            for executor, model in models_of(("native", "python"), None, table)
        ]
        found.append(min(prices, key=lambda price: price.seconds))
    return sorted(found, key=lambda price: price.seconds)


def measurements(shapes: Counter[Shape], table: Table) -> list[Price]:
    """Return the ways that the table has for all calls, the fastest first.

    They were measured on private buffers of four-byte elements, or what is most like them.
    """
    name = _one_collective(shapes)
    found = [] if name is None else [table.find(name, s.ranks, "private", 4) for s in shapes]
    sections = {section.ranks: section for section in found if section is not None}
    if not found or None in found:
        return []
    ways = set.intersection(*(set(section.seconds) for section in sections.values()))
    prices = [Price(Way(*way), _mean(shapes, partial(_measured, sections, way))) for way in ways]
    return sorted(prices, key=lambda price: (price.seconds, price.way))


def _one_collective(shapes: Counter[Shape]) -> str | None:
    names = {shape.collective for shape in shapes}
    return names.pop() if len(names) == 1 else None


def _mean(shapes: Counter[Shape], seconds: Callable[[Shape], float]) -> float:
    return sum(n * seconds(s) for s, n in shapes.items()) / shapes.total()


def _predicted(
    collective: Collective, algorithm: str, model: Model | Topology, shape: Shape
) -> float:
    return predicted(collective, algorithm, shape.ranks, shape.nbytes, model)


def _measured(sections: Mapping[int, Section], way: TableWay, shape: Shape) -> float:
    return sections[shape.ranks].measured(way, shape.nbytes)


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
