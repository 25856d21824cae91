"""Four panels over the epochs: loss, accuracy, throughput, share of communication."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

from hpcdl.errors import UserError
from hpcdl.report.metrics import Line, summary

_TRAIN, _TEST, _OTHER, _INK, _PALE = "#1f5fa8", "#d9670b", "#2f7d5b", "#222222", "#8a8a8a"


def picture(lines: Sequence[Line], name: str) -> bytes:
    """Draw the four panels.

    Args:
        lines: the epochs; none at all gives empty panels.
        name: of the run, for the title.

    Returns:
        A PNG file, 1500 x 1050 pixels.

    Raises:
        UserError: matplotlib is missing.
    """
    try:
        import matplotlib.style
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserError(
            f"hpcdl report: matplotlib cannot be imported ({error}); pip install 'hpcdl[plot]'"
        ) from error
    look: dict[str, Any] = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": _PALE,
        "axes.labelcolor": _INK,
        "xtick.color": _PALE,
        "ytick.color": _PALE,
        "xtick.labelcolor": _INK,
        "ytick.labelcolor": _INK,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": 11,
        "axes.titlepad": 10,
        "axes.axisbelow": True,
    }
    # The user's own settings may ask for LaTeX or a dark ground.
    with matplotlib.style.context(["default", look]):
        figure = Figure(figsize=(10, 7), dpi=150, facecolor="white")
        panels = figure.subplots(2, 2, sharex=True)
        figure.subplots_adjust(0.085, 0.085, 0.955, 0.83, wspace=0.27, hspace=0.32)
        _head(figure, name, summary(lines))
        _loss(panels[0, 0], lines)
        _accuracy(panels[0, 1], lines)
        _throughput(panels[1, 0], lines)
        _communication(panels[1, 1], lines)
        for panel in panels[1]:
            panel.set_xlabel("epoch")
            panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
            panel.set_xlim(_range([line["epoch"] for line in lines]))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _range(epochs: Sequence[float]) -> tuple[float, float]:
    low, high = min(epochs, default=1), max(epochs, default=1)
    margin = 0.03 * (high - low) or 0.5
    return low - margin, high + margin


def _head(figure: Any, name: str, text: str) -> None:
    figure.text(0.085, 0.945, name, size=17, weight="bold", color=_INK, parse_math=False)
    figure.text(0.085, 0.908, text, size=11, color="#555555")


def _curve(panel: Any, lines: Sequence[Line], key: str, color: str, label: str = "") -> list[float]:
    """Draw one quantity over the epochs; return its values that are numbers."""
    values = [line[key] for line in lines]
    measured = [value for value in values if not math.isnan(value)]
    dots = "o" if len(lines) <= 40 else ""
    panel.plot(
        [line["epoch"] for line in lines],
        values,
        color=color,
        marker=dots,
        markersize=4,
        linewidth=1.8,
        label=label if measured else "",
        clip_on=False,
    )
    return measured


def _finish(panel: Any, title: str, measured: bool, *, legend: str = "") -> None:
    panel.set_title(title, color=_INK)
    panel.minorticks_off()
    panel.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    panel.tick_params(length=3)
    if not measured:
        panel.set_yticks([])
        panel.text(
            0.5, 0.5, "nothing measured", transform=panel.transAxes, ha="center", color=_PALE
        )
    elif legend:
        panel.legend(frameon=False, loc=legend, handlelength=1.5)


def _loss(panel: Any, lines: Sequence[Line]) -> None:
    values = _curve(panel, lines, "train_loss", _TRAIN, "train")
    values += _curve(panel, lines, "test_loss", _TEST, "test")
    positive = bool(values) and min(values) > 0
    if positive and max(values) > 20 * min(values):
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, position: f"{value:g}")
    elif positive:
        panel.set_ylim(bottom=0)
    _finish(panel, "Loss, nats per sample", bool(values), legend="upper right")


def _accuracy(panel: Any, lines: Sequence[Line]) -> None:
    percent = [
        line | {key: 100 * line[key] for key in ("train_accuracy", "test_accuracy")}
        for line in lines
    ]
    values = _curve(panel, percent, "train_accuracy", _TRAIN, "train")
    values += _curve(panel, percent, "test_accuracy", _TEST, "test")
    if values:
        panel.set_ylim(min(min(values) - 2, 90), 100)
    _finish(panel, "Accuracy, %", bool(values), legend="lower right")


def _throughput(panel: Any, lines: Sequence[Line]) -> None:
    values = _curve(panel, lines, "samples_per_s", _OTHER)
    if values:
        panel.set_ylim(0, 1.15 * max(values) or 1)
        panel.yaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")
    _finish(panel, "Training throughput, samples/s", bool(values))


def _communication(panel: Any, lines: Sequence[Line]) -> None:
    percent = [line | {"comm_fraction": 100 * line["comm_fraction"]} for line in lines]
    values = _curve(panel, percent, "comm_fraction", _OTHER)
    if values:
        panel.set_ylim(0, 100)
    _finish(panel, "Time in communication, %", bool(values))
