"""The metrics of a run as numbers, and numbers as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hpcdl.metricsfile import is_number, parse_lines

Line = dict[str, float]
"""What was measured after an epoch; NaN where nothing was."""

LIMIT = 1e30
"""Largest magnitude: beyond what a run can measure, and within what can be drawn."""

_KEYS = (
    "step",
    "time_s",
    "train_loss",
    "test_loss",
    "train_accuracy",
    "test_accuracy",
    "samples_per_s",
    "comm_fraction",
    "wire_bytes_per_step",
)


def parse(text: str) -> tuple[list[Line], int]:
    """Return a line of numbers for each epoch, in order, and how many lines could not be read.

    A number that is missing, null or not finite becomes NaN; one beyond `LIMIT` becomes that.
    """
    epochs: dict[float, Line] = {}
    lines, unread = parse_lines(text)
    for values in lines:
        epoch = _number(values["epoch"])
        epochs[epoch] = {"epoch": epoch} | {key: _number(values.get(key)) for key in _KEYS}
    return [epochs[epoch] for epoch in sorted(epochs)], unread


def _number(value: Any) -> float:
    return max(-LIMIT, min(LIMIT, float(value))) if is_number(value) else math.nan


def number_text(value: float, form: str) -> str:
    """Write a number in a format of ``format``, NaN as a dash."""
    return "\N{EN DASH}" if math.isnan(value) else format(value, form)


def percent_text(value: float) -> str:
    """Write a fraction in percent."""
    return number_text(value, ".2%").replace("%", " %")


def bytes_text(value: float) -> str:
    """Write a number of bytes with three digits and a decimal unit."""
    if math.isnan(value):
        return number_text(value, "")
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def duration_text(seconds: float) -> str:
    """Write seconds as people do: 12.3 s, 4:05 min, 1:02:03."""
    if math.isnan(seconds):
        return number_text(seconds, "")
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02} min"


def summary(lines: Sequence[Line]) -> str:
    """Say in one line how the run went."""
    if not lines:
        return "No epoch has finished yet."
    last = lines[-1]
    parts = [f"{last['epoch']:.0f} epoch{'s' * (last['epoch'] != 1)}"]
    if not math.isnan(last["time_s"]):
        parts.append(duration_text(last["time_s"]))
    tested = [line for line in lines if not math.isnan(line["test_accuracy"])]
    if tested:
        best = max(tested, key=lambda line: line["test_accuracy"])
        parts.append(f"test accuracy {percent_text(tested[-1]['test_accuracy'])} at the end")
        parts.append(f"best {percent_text(best['test_accuracy'])} in epoch {best['epoch']:.0f}")
    if not math.isnan(last["wire_bytes_per_step"]):
        parts.append(f"{bytes_text(last['wire_bytes_per_step'])} sent per rank and step")
    return " \N{MIDDLE DOT} ".join(parts)
