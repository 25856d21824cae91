"""A picture of a benchmark: latency and bus bandwidth against length, with the model's curve."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from collectives.bench.row import Row, bus_bandwidth
from collectives.collective import COLLECTIVES, Collective
from collectives.commands.arguments import UsageError
from collectives.model import Model
from collectives.select import models_of, predicted
from collectives.table import EXECUTORS, Table
from collectives.topology import Topology
from collectives.units import bytes_text

Models: TypeAlias = "dict[str, Model | Topology]"

SUFFIXES = (".png", ".svg", ".pdf")
"""What can be drawn: a picture of pixels, or of lines."""

_PANEL = (5.4, 3.8)  # inches
_LEGEND = 3.2
_TICKS = 8
_MARKERS = "osv^"


def check_plot(path: Path) -> None:
    """Check that such a file can be drawn.

    Raises:
        UsageError: it cannot; the message says why.
    """
    if path.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path}: the name has to end in one of {', '.join(SUFFIXES)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"--plot {path}: needs matplotlib (pip install 'hpcdl[plot]')")


def plot(path: Path, rows: Sequence[Row], table: Table | None = None) -> None:
    """Draw the rows: for each collective and mode the time of a call, and its bus bandwidth.

    Full lines are measured, the black one is the faster of the library's own calls; a dotted line
    of the same colour is what the model says of a schedule.

    Args:
        path: the file to write; its suffix says what kind of picture.
        rows: as `collectives.bench.run.run` returns them.
        table: has the models of this machine; None: rough ones.

    Raises:
        UsageError: there is nothing to draw.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = [r for r in rows if r.bytes]  # a barrier has no length
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in drawn:
        groups.setdefault((row.collective, row.mode), []).append(row)
    if not groups:
        raise UsageError(f"--plot {path}: there is nothing to draw; a barrier has no length")
    models = models_of(EXECUTORS, None, table)
    with rc_context({"svg.fonttype": "none", "font.size": 9}):
        size = (2 * _PANEL[0] + _LEGEND, _PANEL[1] * len(groups))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(groups), 2, squeeze=False)
        for ((name, mode), found), pair in zip(groups.items(), panels, strict=True):
            _draw(f"{name}, {mode}", found, dict(models), *pair)
        figure.suptitle(f"{drawn[0].ranks} ranks, {drawn[0].mpi}; medians of the slowest rank")
        figure.savefig(path, dpi=150)


def _draw(title: str, rows: Sequence[Row], models: Models, left: Any, right: Any) -> None:
    series: dict[str, list[Row]] = {}
    for row in rows:
        series.setdefault(f"{row.algorithm}, {row.executor}, {row.placement}", []).append(row)
    for i, (label, found) in enumerate(series.items()):
        style: dict[str, Any] = {"color": f"C{i % 10}", "marker": _MARKERS[i // 10 % len(_MARKERS)]}
        _line(left, right, found, [r.median_us for r in found], label=label, **style)
        modelled = [_modelled_us(r, models) for r in found]
        if None not in modelled:
            _line(left, right, found, modelled, color=style["color"], linestyle=":")
    native = [r for r in next(iter(series.values())) if r.native_us is not None]
    if native:
        us = [r.native_us for r in native]
        _line(left, right, native, us, label="MPI library's own", color="black", linewidth=2)
    if any(r.executor in models for r in rows):
        right.plot([], [], color="0.5", linestyle=":", label="the model")
    for axes, what in ((left, "microseconds"), (right, "bus bandwidth, GB/s")):
        axes.set(xscale="log", yscale="log", xlabel="length", ylabel=what, title=title)
        lengths = sorted({r.bytes for r in rows})
        shown = lengths[:: -(-len(lengths) // _TICKS)]
        axes.set_xticks(shown, [bytes_text(n) for n in shown], rotation=30, ha="right")
        axes.minorticks_off()
        axes.grid(color="0.9")
    right.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)


def _line(left: Any, right: Any, rows: Sequence[Row], us: Sequence[Any], **style: Any) -> None:
    at = [r.bytes for r in rows]
    label = style.pop("label", None)
    common = {"markersize": 3, "linewidth": 1, **style}
    left.plot(at, us, **common)
    gigabytes = [
        bus_bandwidth(_collective(r), r.ranks, r.bytes, 1e-6 * t)
        for r, t in zip(rows, us, strict=True)
    ]
    right.plot(at, gigabytes, label=label, **common)


def _collective(row: Row) -> Collective:
    name = row.collective
    return COLLECTIVES[name if name in COLLECTIVES else name.removesuffix("v")]


def _modelled_us(row: Row, models: Models) -> float | None:
    """Return what the model says, in microseconds; None where no schedule of messages ran."""
    model = models.get(row.executor)
    if model is None or row.collective not in COLLECTIVES:
        return None
    collective = COLLECTIVES[row.collective]
    return predicted(collective, row.chosen, row.ranks, row.bytes, model) * 1e6
