"""A report of a run: one picture, and one HTML page that needs no other file."""

from __future__ import annotations

import os
from pathlib import Path

from hpcdl.data import replacing
from hpcdl.errors import UserError
from hpcdl.metricsfile import read_text
from hpcdl.report.metrics import parse
from hpcdl.report.page import page
from hpcdl.report.picture import picture
from hpcdl.rundir import using

__all__ = ["report"]


def report(run_dir: str | os.PathLike[str]) -> list[Path]:
    """Draw the loss, accuracy, throughput and share of communication of a run.

    Reads ``metrics.jsonl`` in the folder of the run, and ``config.toml`` if it is there. A last
    line that is only half written is left out, so a run may be looked at while it goes on; of an
    epoch that was done twice, the later line counts.

    Args:
        run_dir: the folder of the run.

    Returns:
        The files written into it: ``report.png`` and ``report.html``.

    Raises:
        UserError: there are no metrics, matplotlib is missing, or the files cannot be written.
    """
    folder = Path(run_dir)
    try:
        text = read_text(folder / "metrics.jsonl")
    except OSError as error:
        raise UserError(
            f"{folder}: metrics.jsonl cannot be read ({error.strerror}); it must be the folder of "
            "a run, which training names run.dir"
        ) from error
    lines, unread = parse(text)
    name = folder.resolve().name
    config = folder / "config.toml"
    settings = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
    png = picture(lines, name)
    html = page(lines, unread, name, settings, png)
    written = []
    for file_name, content in (("report.png", png), ("report.html", html.encode())):
        path = folder / file_name
        with using(path), replacing(path) as file:
            file.write(content)
        written.append(path)
    return written
