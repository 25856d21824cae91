"""Bars: what a benchmark found at one length, each with its name and its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT = 0.19
"""Inches of a bar."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One way to do a collective.

    Attributes:
        label: its name.
        us: microseconds that it took.
        gigabytes: its bus bandwidth in GB/s; 0 where there is nothing to move.
        colour: as matplotlib names it.
        modelled: microseconds by the model; None where it has none.
    """

    label: str
    us: float
    gigabytes: float
    colour: str
    modelled: float | None = None


def draw_bars(title: str, bars: Sequence[Bar], left: Any, right: Any) -> None:
    """Draw the times into the left panel and the bus bandwidths into the right, fastest first."""
    ordered = sorted(bars, key=lambda bar: -bar.us)
    modelled = [(bar.modelled, y) for y, bar in enumerate(ordered) if bar.modelled is not None]
    what = "microseconds (mark: the model)" if modelled else "microseconds"
    _panel(left, ordered, [bar.us for bar in ordered], f"{title}: {what}")
    left.set_yticks(range(len(ordered)), [bar.label for bar in ordered])
    if modelled:
        left.plot(*zip(*modelled, strict=True), **_MODEL)
        left.set_xlim(0, max(left.get_xlim()[1], *(1.05 * us for us, _ in modelled)))
    if any(bar.gigabytes for bar in ordered):
        _panel(right, ordered, [bar.gigabytes for bar in ordered], "bus bandwidth, GB/s")
        right.set_yticks([])
    else:
        right.set_axis_off()


_MODEL: dict[str, Any] = {
    "marker": "|",
    "color": "0.25",
    "linestyle": "",
    "markersize": 9,
    "markeredgewidth": 2,
}


def _panel(axes: Any, bars: Sequence[Bar], values: Sequence[float], title: str) -> None:
    drawn = axes.barh(range(len(bars)), values, color=[bar.colour for bar in bars], height=0.7)
    axes.bar_label(drawn, [f"{value:.4g}" for value in values], padding=3, fontsize=8)
    axes.set(title=title, xlim=(0, 1.15 * max(values)))
    axes.margins(y=0.02)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
