"""The HTML page: the picture, a table of the epochs, the configuration."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcdl.report.metrics import (
    Line,
    bytes_text,
    duration_text,
    number_text,
    percent_text,
    summary,
)


@dataclass(frozen=True)
class _Column:
    title: str
    key: str
    text: Callable[[float], str]


_COLUMNS = (
    _Column("epoch", "epoch", lambda v: number_text(v, ".0f")),
    _Column("step", "step", lambda v: number_text(v, ",.0f")),
    _Column("time", "time_s", duration_text),
    _Column("train loss", "train_loss", lambda v: number_text(v, ".4f")),
    _Column("test loss", "test_loss", lambda v: number_text(v, ".4f")),
    _Column("train accuracy", "train_accuracy", percent_text),
    _Column("test accuracy", "test_accuracy", percent_text),
    _Column("samples/s", "samples_per_s", lambda v: number_text(v, ",.0f")),
    _Column("communication", "comm_fraction", percent_text),
    _Column("sent per rank and step", "wire_bytes_per_step", bytes_text),
)


_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
  body {{ max-width: 64rem; margin: 2.5rem auto; padding: 0 1rem; background: #fff; color: #222;
         font: 16px/1.5 system-ui, sans-serif; }}
  header {{ position: absolute; width: 1px; height: 1px; overflow: hidden; }}
  h2 {{ margin: 2.5rem 0 .75rem; font-size: 1.15rem; }}
  img {{ width: 100%; height: auto; }}
  .scroll {{ overflow-x: auto; }}
  table {{ width: 100%; border-collapse: collapse; font-size: .85rem;
          font-variant-numeric: tabular-nums; }}
  th, td {{ padding: .3rem .6rem; text-align: right; white-space: nowrap; }}
  th {{ border-bottom: 2px solid #222; vertical-align: bottom; white-space: normal; }}
  td {{ border-bottom: 1px solid #e4e4e4; }}
  .best td {{ background: #fdf1e6; }}
  pre {{ padding: 1rem; overflow-x: auto; background: #f6f6f6; font-size: .85rem; }}
</style>
</head>
<body>
<!-- The picture says this too; the text is for search and for screen readers. -->
<header><h1>{name}</h1><p>{summary}</p></header>
<img src="data:image/png;base64,{png}"
     alt="Four charts over the epochs: loss, accuracy, throughput, share of communication">
<h2>Epochs</h2>
{table}
{rest}</body>
</html>
"""


def page(lines: Sequence[Line], unread: int, name: str, settings: str, png: bytes) -> str:
    """Return the HTML page.

    Args:
        lines: the epochs.
        unread: how many lines of the metrics could not be read.
        name: of the run, for the title.
        settings: the configuration as text; an empty one is left out.
        png: the picture, which becomes a part of the page.
    """
    rest = ""
    if unread:
        rest += f"<p>{unread} line{'s' * (unread > 1)} of metrics.jsonl could not be read.</p>\n"
    if settings:
        rest += f"<h2>Configuration</h2>\n<pre>{html.escape(settings)}</pre>\n"
    return _PAGE.format(
        name=html.escape(name),
        summary=html.escape(summary(lines)),
        png=base64.b64encode(png).decode(),
        table=_table(lines) if lines else "<p>None yet.</p>",
        rest=rest,
    )


def _table(lines: Sequence[Line]) -> str:
    columns = [c for c in _COLUMNS if any(not math.isnan(line[c.key]) for line in lines)]
    tested = [line for line in lines if not math.isnan(line["test_accuracy"])]
    best = max(tested, key=lambda line: line["test_accuracy"], default=None)
    rows = "".join(f"<th>{column.title}</th>" for column in columns)
    text = f'<div class="scroll"><table>\n<thead><tr>{rows}</tr></thead>\n<tbody>\n'
    for line in lines:
        cells = "".join(f"<td>{column.text(line[column.key])}</td>" for column in columns)
        opening = '<tr class="best">' if line is best else "<tr>"
        text += f"{opening}{cells}</tr>\n"
    return text + "</tbody>\n</table></div>"
