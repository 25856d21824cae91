"""A picture of a benchmark: latency and bus bandwidth against length, with the model's curve."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.bench.bars import HEIGHT, Bar, draw_bars
from collectives.bench.row import DISTURBED, Row, bus_bandwidth
from collectives.bench.settings import AUTO
from collectives.collective import COLLECTIVES, Collective
from collectives.commands.arguments import UsageError
from collectives.model import Model
from collectives.select import models_of, predicted
from collectives.table import EXECUTORS, Table
from collectives.topology import Topology
from collectives.units import bytes_text, count_text

Models: TypeAlias = "dict[str, Model | Topology]"

SUFFIXES = (".png", ".svg", ".pdf")
"""What can be drawn: a picture of pixels, or of lines."""

_PANEL = (5.4, 3.8)  # inches
_LEGEND = 3.2
_ENTRY = 0.155
_MARGIN = 1.0
_TICKS = 8
_MARKERS = "osv^DP"
_COLOURS = [f"C{i}" for i in (0, 1, 2, 3, 4, 5, 6, 9)] + [
    "navy",
    "olive",
    "teal",
    "darkgoldenrod",
    "mediumvioletred",
    "limegreen",
]
_SHARED = "0.5"
_TAKEN = 4
"""So many algorithms that auto took are named in the legend."""

_SUBS = (([1, 1.2, 1.5, *range(2, 10)], 4), ([1, 2, 5], 1000), ([1], math.inf))
_LIBRARY = "MPI library's own"


def check_plot(path: Path) -> None:
    """Check that such a file can be drawn.

    Raises:
        UsageError: it cannot; the message says why.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path}: the name has to end in one of {', '.join(SUFFIXES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"--plot {path}: needs matplotlib (pip install 'hpcdl[plot]')")


def plot(
    to: Path | BinaryIO, rows: Sequence[Row], table: Table | None = None, kind: str | None = None
) -> None:
    """Draw the rows: for each collective and mode the time of a call, and its bus bandwidth.

    Of several lengths as curves. Full lines are measured, the black one is the faster of the
    library's own calls; a dotted line of the same colour is what the model says of a schedule, a
    grey one what it says of several. Of one length as bars.

    Args:
        to: the file to write.
        rows: as `collectives.bench.run.run` returns them; one at least.
        table: has the models of this machine; None: rough ones.
        kind: of picture: png, svg or pdf; None: what the suffix of the file says.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.collective, row.mode), []).append(row)
    models = dict(models_of(EXECUTORS, None, table))
    heights = [_height(found) for found in groups.values()]
    with rc_context({"svg.fonttype": "none", "font.size": 9}):
        size = (2 * _PANEL[0] + _LEGEND, sum(heights) + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(groups), 2, squeeze=False, height_ratios=heights)
        for ((name, mode), found), pair in zip(groups.items(), panels, strict=True):
            if len(_lengths(found)) == 1:
                at = f", {bytes_text(found[0].bytes)}" if found[0].bytes else ""
                draw_bars(f"{name}, {mode}{at}", _bars(found, models), *pair)
            else:
                _draw(f"{name}, {mode}", found, models, *pair)
        quiet = max(row.disturbed for row in rows) <= DISTURBED
        figure.suptitle(
            f"{count_text(rows[0].ranks, 'rank')}, {rows[0].mpi}; medians of the slowest rank"
            + ("" if quiet else "; the machine was not quiet")
        )
        figure.savefig(to, dpi=150, format=kind)


def _lengths(rows: Sequence[Row]) -> list[int]:
    return sorted({row.bytes for row in rows})


def _label(row: Row) -> str:
    return f"{row.algorithm}, {row.executor}, {row.placement}"


def _legend(rows: Sequence[Row]) -> str:
    """Return what the legend says of the rows of a label: also what "auto" took, by length."""
    text = _label(rows[0])
    if rows[0].algorithm != AUTO:
        return text
    ordered = sorted(rows, key=lambda row: row.bytes)
    taken = [row for i, row in enumerate(ordered) if not i or row.chosen != ordered[i - 1].chosen]
    lines = [f"   from {bytes_text(row.bytes)}: {row.chosen}" for row in taken[:_TAKEN]]
    if len(taken) == 1:
        lines = [f"   {taken[0].chosen}"]
    return "\n".join((text, *lines, *(["   ..."] if len(taken) > _TAKEN else [])))


def _series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(_label(row), []).append(row)
    return found


def _height(rows: Sequence[Row]) -> float:
    """Return the height of the panels of these rows in inches: all names have room."""
    if len(_lengths(rows)) == 1:
        return _MARGIN + HEIGHT * (len(_series(rows)) + 2)
    names = sum(1 + _legend(found).count("\n") for found in _series(rows).values())
    return max(_PANEL[1], _MARGIN + _ENTRY * (names + 3))


def _styles(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return a style for each label: algorithms differ in colour, how they are run in markers."""
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    manners = list(dict.fromkeys((row.executor, row.placement) for row in rows))
    few = len(algorithms) == 1  # then colours show how they are run
    found = {}
    for row in rows:
        algorithm, manner = (
            algorithms.index(row.algorithm),
            manners.index((row.executor, row.placement)),
        )
        found[_label(row)] = {
            "color": _COLOURS[(manner if few else algorithm) % len(_COLOURS)],
            "marker": _MARKERS[manner % len(_MARKERS)],
        }
    return found


def _bars(rows: Sequence[Row], models: Models) -> list[Bar]:
    styles = _styles(rows)
    bars = [
        Bar(
            _label(row) + (f": {row.chosen}" if row.algorithm == AUTO else ""),
            row.median_us,
            row.busbw_GBps,
            styles[_label(row)]["color"],
            _modelled_us(row, models),
        )
        for row in rows
    ]
    native = next((row.native_us for row in rows if row.native_us is not None), None)
    if native is not None:
        bars.append(Bar(_LIBRARY, native, _bandwidth(rows[0], native), "black"))
    return bars


def _draw(title: str, rows: Sequence[Row], models: Models, left: Any, right: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    styles = _styles(rows)
    series = _series(rows)
    # Curves of the model that lie on each other are drawn once.
    curves: dict[tuple[str, ...], list[str]] = {}
    for label, found in series.items():
        measured = [r.median_us for r in found]
        _line(left, right, found, measured, label=_legend(found), **styles[label])
        modelled = [_modelled_us(r, models) for r in found]
        if None not in modelled:
            curves.setdefault(tuple(f"{t:.3g}" for t in modelled), []).append(label)
    for same in curves.values():
        found = series[same[0]]
        modelled = [_modelled_us(r, models) for r in found]
        colour = styles[same[0]]["color"] if len(same) == 1 else _SHARED
        _line(left, right, found, modelled, color=colour, linestyle=":")
    native = [r for r in next(iter(series.values())) if r.native_us is not None]
    if native:
        us = [r.native_us for r in native]
        _line(left, right, native, us, label=_LIBRARY, color="black", linewidth=2)
    if curves:
        several = any(len(same) > 1 for same in curves.values())
        label = "the model (grey: of several)" if several else "the model"
        right.plot([], [], color=_SHARED, linestyle=":", label=label)
    moves = any(row.busbw_GBps for row in rows)  # one rank has nothing to send
    if not moves:
        right.set_axis_off()
    lengths = _lengths(rows)
    shown = lengths[:: -(-len(lengths) // _TICKS)]
    panels = [(left, "microseconds"), (right, "bus bandwidth, GB/s")]
    for axes, what in panels[: 1 + moves]:
        axes.set(xscale="log", yscale="log", xlabel="length", ylabel=what, title=title)
        low, high = axes.get_ylim()
        # Some ticks have numbers, and not too many, however far the axis goes.
        subs = next(subs for subs, wide in _SUBS if high / low < wide)
        axes.yaxis.set_major_locator(LogLocator(subs=subs))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xticks(shown, [bytes_text(n) for n in shown], rotation=30, ha="right")
        axes.minorticks_off()
        axes.grid(color="0.9")
    right.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8)


def _line(left: Any, right: Any, rows: Sequence[Row], us: Sequence[Any], **style: Any) -> None:
    at = [r.bytes for r in rows]
    label = style.pop("label", None)
    common = {"markersize": 3, "linewidth": 1, **style}
    left.plot(at, us, **common)
    gigabytes = [_bandwidth(r, t) for r, t in zip(rows, us, strict=True)]
    if any(gigabytes):
        right.plot(at, gigabytes, label=label, **common)
    else:  # the legend stays
        right.plot([], [], label=label, **common)


def _bandwidth(row: Row, us: float) -> float:
    return bus_bandwidth(_collective(row), row.ranks, row.bytes, 1e-6 * us)


def _collective(row: Row) -> Collective:
    name = row.collective
    return COLLECTIVES[name if name in COLLECTIVES else name.removesuffix("v")]


def _modelled_us(row: Row, models: Models) -> float | None:
    """Return what the model says, in microseconds; None where no schedule of messages ran."""
    model = models.get(row.executor)
    if model is None or row.ranks == 1 or row.collective not in COLLECTIVES:
        return None
    collective = COLLECTIVES[row.collective]
    return predicted(collective, row.chosen, row.ranks, row.bytes, model) * 1e6
