"""Write the tables of `collectives.table` as TOML.

A table is written to a file beside the target, which then takes its place: so readers see a whole
table or none.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from collectives.model import PARAMETERS
from collectives.table import FORMAT, VERSION, Table, Way


def write(path: str | Path, table: Table) -> None:
    """Write a table to a file: the whole of it, or nothing.

    Raises:
        OSError: it cannot be written.
    """
    target = Path(os.path.realpath(path))  # a link to it stays
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text_of(table))
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def text_of(table: Table) -> str:
    """Return the table as TOML."""
    return "\n".join(_lines(table)) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield "# Written by 'python -m collectives tune'. Times are in seconds for models (per message"
    yield "# or per byte) and in microseconds for measurements. From 'bytes' on, the choice holds."
    yield f"format = {_text(FORMAT)}"
    yield f"version = {VERSION}"
    yield f"machine = {_text(table.machine)}"
    yield f"mpi = {_text(table.mpi)}"
    yield f"date = {_text(table.date)}"
    if not table.fits:
        yield "model = {}"
    if not table.sections:
        yield "section = []"
    for executor, fit in table.fits.items():
        yield f"\n[model.{executor}]"
        yield f"residual = {fit.residual:.4g}"
        for name in PARAMETERS:
            yield f"{name} = {getattr(fit.model, name):.6g}"
        for name, (low, high) in fit.intervals.items():
            yield f"{name}_interval = [{low:.6g}, {high:.6g}]"
    for s in table.sections:
        yield "\n[[section]]"
        yield f"collective = {_text(s.collective)}"
        yield f"ranks = {s.ranks}"
        yield f"placement = {_text(s.placement)}"
        yield f"itemsize = {s.itemsize}"
        yield "choice = ["
        for b in s.breakpoints:
            yield f"  {{ bytes = {b.nbytes}, {_way(b.way)}, us = {_us(b.seconds)} }},"
        yield "]"
        yield f"bytes = [{', '.join(map(str, s.sizes))}]"
        yield "measured = ["
        for way, seconds in s.seconds.items():
            yield f"  {{ {_way(way)}, us = [{', '.join(map(_us, seconds))}] }},"
        yield "]"


def _way(way: Way) -> str:
    return f"algorithm = {_text(way.algorithm)}, executor = {_text(way.executor)}"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.6g}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
