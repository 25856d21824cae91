"""Print the counts of a program, beside what other algorithms would have taken."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES
from collectives.intracomm.report import Shape, Site, Tally, Way
from collectives.registry import REGISTRY
from collectives.select import models_of, predicted
from collectives.table import Table
from collectives.units import time_text

OTHERS = 3
"""So many of the other algorithms are shown: those that are predicted to be fastest."""


def report_text(sites: Mapping[Site, Tally], table: Table | None = None) -> str:
    """Return the counts for people to read, the slowest place first.

    Args:
        sites: the counts of all ranks (see `collectives.intracomm.report.Report.gather`).
        table: whose models predict; None: those that `collectives.select` has.
    """
    if not sites:
        return "No collective on buffers was called.\n"
    lines = [
        "Collectives on buffers: calls, bytes and time of the rank that has most of each; what",
        "algorithms would have taken is predicted by the model, not measured.",
        "",
        f"{'time':>12} {'calls':>8} {'bytes':>14}  where",
    ]
    for site, tally in sorted(sites.items(), key=lambda item: -item[1].seconds):
        where = f"{_short(site.file)}:{site.line} {site.call}"
        lines.append(f"{time_text(tally.seconds):>12} {tally.calls:>8} {tally.nbytes:>14}  {where}")
        done = ", ".join(f"{_named(way)} x{n}" for way, n in tally.ways.most_common())
        lines.append(f"{'':>12} {'':>8} {'':>14}  done by {done}")
        prices = predictions(tally.shapes, table)
        if prices:
            shown = ", ".join(f"{name} {time_text(t)}" for name, t in prices[:OTHERS])
            lines.append(f"{'':>12} {'':>8} {'':>14}  predicted: {shown}")
    return "\n".join(lines) + "\n"


def predictions(shapes: Counter[Shape], table: Table | None = None) -> list[tuple[str, float]]:
    """Return the algorithms that could have done all calls, with their seconds, fastest first.

    The price is that of `collectives.select.predicted`, on the executor that is cheapest.
    """
    collectives = {shape.collective for shape in shapes}
    if len(collectives) != 1:
        return []
    (name,) = collectives
    models = [m for _, m in models_of(("native", "python"), None, table)]
    collective = COLLECTIVES[name]
    prices = {
        algorithm: sum(
            n * min(predicted(collective, algorithm, s.ranks, s.nbytes, m) for m in models)
            for s, n in shapes.items()
        )
        for algorithm in REGISTRY.names(collective)
    }
    return sorted(prices.items(), key=lambda item: item[1])


def _named(way: Way) -> str:
    return f"{way.algorithm} ({way.executor})" if way.executor else "the library"


def _short(file: str) -> str:
    """Return a file as it is seen from here, where that is shorter."""
    try:
        return min(file, os.path.relpath(file), key=len)
    except ValueError:  # on another drive
        return file
