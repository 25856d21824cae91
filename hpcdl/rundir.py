"""The folder of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def set_aside(directory: Path, names: Sequence[str]) -> Path | None:
    """Move what an earlier run left in a folder to a folder inside it, so that nothing is lost.

    Args:
        directory: the folder of the run; it need not exist.
        names: the files and folders that a run makes.

    Returns:
        Where they are now, or None where there were none.
    """
    found = [directory / name for name in names if (directory / name).exists()]
    if not found:
        return None
    number = 1
    while (target := directory / f"earlier-{number}").exists():
        number += 1
    target.mkdir()
    for path in found:
        os.replace(path, target / path.name)
    return target
