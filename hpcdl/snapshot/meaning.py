"""What gives the stored arrays of a run their names and their meaning."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdl.loop import Run
from hpcdl.nn.pack import Slices

Tensors = dict[str, NDArray[Any]]
Attrs = dict[str, Any]

ROWS = "ranks/"
"""Names of arrays with a row for each rank begin so."""

STATE = f"{ROWS}consistency/"
"""Names of what the consistency keeps begin so."""

TALLY = f"{ROWS}tally"
"""Each rank's shares of the epoch's sums."""

_WAYS = ("algorithm", "route", "seed")  # how something is computed, not what


def vectors(run: Run) -> dict[str, Any]:
    """Return the flat vectors of a run, by the name under which they are stored."""
    packed = run.model.packed
    return {
        "params": packed.vector,
        "buffers": packed.buffers,
        **{f"optimizer/{key}": a for key, a in sorted(run.optimizer_state.items())},
    }


def slices_of(run: Run, name: str) -> Slices:
    """Return where the leaves of the layers lie in one of `vectors`."""
    packed = run.model.packed
    return packed.buffer_slices if name == "buffers" else packed.slices


def meaning(run: Run) -> Attrs:
    """Return the attributes that say what the arrays of this run mean."""
    kept = ", ".join(sorted(run.optimizer_state)) or "nothing"
    return {
        "seed": run.seed,
        "steps_per_epoch": run.data.steps_per_epoch,
        "samples": run.data.samples,
        "batch": run.data.batch_size,
        "dtype": str(np.dtype(run.model.packed.vector.dtype)),
        "optimizer": f"{type(run.optimizer).__qualname__} keeping {kept}",
        "consistency": identity(run.consistency),
    }


def identity(part: Any) -> str:
    """Return the class and the options of a part of a run, and of the parts in it.

    Options that choose the way to the same result are left out: algorithm, route and seed.

    Args:
        part: a dataclass; of anything else that is not a plain value only the class is named.
    """
    if is_dataclass(part) and not isinstance(part, type):
        options = [
            f"{f.name}={identity(getattr(part, f.name))}"
            for f in fields(part)
            if f.name not in _WAYS
        ]
        return f"{type(part).__qualname__}({', '.join(options)})"
    if part is None or isinstance(part, bool | int | float | str | tuple):
        return repr(part)
    return type(part).__qualname__
