"""The file of metrics: JSON lines, read with patience and written in whole lines."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hpcdl.data import replacing


def read_text(path: Path) -> str:
    """Return the text of a file of metrics; bytes that are not UTF-8 become U+FFFD.

    Raises:
        OSError: it cannot be read, or is not a regular file: a pipe would be waited for.
    """
    if path.exists() and not path.is_file():
        raise OSError(0, "not a regular file", str(path))
    return path.read_text(encoding="utf-8", errors="replace")


def parse_lines(text: str) -> tuple[list[dict[str, Any]], int]:
    """Return the lines that are JSON objects with a number ``epoch``, and how many are not.

    Values that are lists or objects, and numbers that are not finite, become None. A last line
    without its end is still being written, or its writer was killed: it is not counted.
    """
    lines, bad = [], 0
    for raw in text.splitlines(keepends=True):
        try:
            read = json.loads(raw, parse_constant=lambda name: None, parse_float=_finite)
        except (ValueError, RecursionError):
            read = None
        if isinstance(read, dict) and is_number(read.get("epoch")):
            lines.append({k: None if isinstance(v, list | dict) else v for k, v in read.items()})
        elif raw.endswith("\n"):
            bad += bool(raw.strip())
    return lines, bad


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number that fits a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file; it is whole at any time."""
    with replacing(path) as file:
        file.write("".join(map(_text, lines)).encode())


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Append one line, by one call to the system."""
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666), "wb") as file:
        file.write(_text(line).encode())


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _text(line: Mapping[str, Any]) -> str:
    # JSON has no NaN and no infinity.
    values = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()
    }
    return json.dumps(values, allow_nan=False) + "\n"
