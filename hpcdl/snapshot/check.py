"""Whether a stored state can be put into a run: all that is looked at before anything moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcdl.errors import UserError
from hpcdl.loop import Run
from hpcdl.snapshot.meaning import ROWS, STATE, TALLY, Tensors, meaning, slices_of, vectors

_ATTRIBUTES: dict[str, tuple[type | tuple[type, ...], int, int | None]] = {
    "step": (int, 0, 10**12),
    "ranks": (int, 1, 2**31),
    "seconds": ((int, float), 0, 10**12),
    "seed": (int, 0, None),
    "steps_per_epoch": (int, 1, 10**12),
    "samples": (int, 1, 10**18),
    "batch": (int, 1, 10**18),
    "dtype": (str, 0, None),
    "optimizer": (str, 0, None),
    "consistency": (str, 0, None),
}
"""Type of each attribute; least value and the one that is too large, of numbers."""

_FIXED = {
    "seed": "run.seed",
    "steps_per_epoch": "a number of steps per epoch of",
    "samples": "a number of training samples of",
    "batch": "train.batch",
    "dtype": "run.dtype",
    "optimizer": "(as optimizer.name and optimizer.momentum, which is kept unless 0, make it)",
}
"""What must be the same for the state to mean the same, and how to call it."""


def check(run: Run, step: int, tensors: Tensors, attrs: Mapping[str, Any]) -> str | None:
    """Check a stored state from end to end; not collective.

    Args:
        run: what it is to be put into; left as it is.
        step: the step that it is said to be of.
        tensors: its arrays.
        attrs: its attributes.

    Returns:
        None where it fits; else why no run can have left it, or none of this network.

    Raises:
        UserError: it is sound, but of another network or run, so that to go on from it would lose
            something or mean something else.
    """
    wrong = _bad_attributes(step, attrs) or _bad_values(attrs, tensors)
    if wrong is not None:
        return wrong
    _other_run(run, attrs)
    wrong = _bad_weights(run, tensors)
    if wrong is not None:
        return wrong
    _other_consistency(run, attrs, tensors)
    return _bad_state(run, attrs, tensors) or _unknown(run, tensors)


def _bad_attributes(step: int, attrs: Mapping[str, Any]) -> str | None:
    for name, (kind, least, limit) in _ATTRIBUTES.items():
        if name not in attrs:
            return f"it has no attribute {name!r}"
        value = attrs[name]
        fits = isinstance(value, kind)
        if fits and not isinstance(value, str):
            fits = value >= least and (limit is None or value < limit)
        if not fits:
            return f"attribute {name} is {_short(value)}, which no run can have left"
    if attrs["step"] != step:
        return f"attribute step is {attrs['step']}, but the file is named after step {step}"
    return None


def _short(value: Any) -> str:
    """Show a value that may be of any length."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "an integer of over 40 digits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _bad_values(attrs: Mapping[str, Any], tensors: Tensors) -> str | None:
    """Look for what is wrong whatever the run."""
    for name, array in tensors.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            return f"{name} is not finite"
        if name.startswith(ROWS) and (array.ndim < 1 or len(array) != attrs["ranks"]):
            return (
                f"{name} has shape {array.shape}: needs a row for each of the "
                f"{attrs['ranks']} ranks"
            )
    return None


def _other_run(run: Run, attrs: Mapping[str, Any]) -> None:
    """Refuse a run in which the state would not mean the same."""
    mine = meaning(run)
    for name, what in _FIXED.items():
        if attrs[name] != mine[name]:
            label = f"an optimizer {what}" if name == "optimizer" else what
            raise UserError(
                f"--resume: the run in the checkpoint has {label} {_plain(attrs[name])}, this one "
                f"{mine[name]}; its state would not mean the same. Set it back, or start a run in "
                "another run.dir"
            )


def _plain(value: Any) -> str:
    return _short(value).strip("'\"")


def _bad_weights(run: Run, tensors: Tensors) -> str | None:
    """Look at weights and running statistics, which tell one network from another."""
    for name in ("params", "buffers"):
        vector, slices = vectors(run)[name], slices_of(run, name)
        rows, leaves = tensors.get(ROWS + name), _leaves(tensors, name)
        if rows is not None and leaves:
            return f"it has {name} both for each rank and for all"
        if rows is not None:
            if rows.ndim != 2 or rows.dtype != vector.dtype:
                return _unfit(ROWS + name, rows, (len(rows), vector.size), vector.dtype)
            if rows.shape[1] != vector.size:
                raise UserError(
                    f"--resume: {name} has {rows.shape[1]} values in the checkpoint and "
                    f"{vector.size} in this network: it is of another network"
                )
            continue
        if name == "params" and slices and not leaves:
            return "it has no params"
        for leaf, (_, _, shape) in slices.items():
            if leaf not in leaves:
                raise UserError(
                    f"--resume: the checkpoint has no {name} of layer {leaf!r}: it is of another "
                    "network"
                )
            if leaves[leaf].shape != shape:
                raise UserError(
                    f"--resume: {name} of layer {leaf!r} has shape {leaves[leaf].shape} in the "
                    f"checkpoint, {shape} in this network: it is of another network"
                )
            if leaves[leaf].dtype != vector.dtype:
                return _unfit(f"{name}/{leaf}", leaves[leaf], shape, vector.dtype)
        for leaf in leaves:
            if leaf not in slices:
                raise UserError(
                    f"--resume: the checkpoint has {f'{name}/{leaf}'!r}, which this network has "
                    "not: it is of another network"
                )
    return None


def _bad_state(run: Run, attrs: Mapping[str, Any], tensors: Tensors) -> str | None:
    """Look at all that goes with the weights; the optimizer is known to be the same."""
    ranks = attrs["ranks"]
    wanted = {TALLY: ((ranks, *run.tally.shape), run.tally.dtype)}
    for name, vector in vectors(run).items():
        if not name.startswith("optimizer/"):
            continue
        leaves = _leaves(tensors, name)
        if ROWS + name in tensors and leaves:
            return f"it has {name} both for each rank and for all"
        if ROWS + name in tensors:
            wanted[ROWS + name] = ((ranks, *vector.shape), vector.dtype)
        else:
            for leaf, (_, _, shape) in slices_of(run, name).items():
                wanted[f"{name}/{leaf}"] = (shape, vector.dtype)
    for key, array in run.consistency.arrays(run.consistency_state).items():
        wanted[STATE + key] = ((ranks, *array.shape), array.dtype)
    for name, (shape, dtype) in wanted.items():
        stored = tensors.get(name)
        if stored is None:
            return f"it has no {name}"
        if stored.shape != shape or stored.dtype != dtype:
            return _unfit(name, stored, shape, dtype)
    return None


def _other_consistency(run: Run, attrs: Mapping[str, Any], tensors: Tensors) -> None:
    """Refuse to drop what another consistency or codec has kept, or to do without it."""
    theirs, mine = attrs["consistency"], meaning(run)["consistency"]
    if theirs == mine:
        return
    changed = f"[consistency] or [compression] was changed, from {_plain(theirs)} to {mine}"
    kept = run.consistency.arrays(run.consistency_state)
    stored = _leaves(tensors, STATE.rstrip("/"))
    for key, array in stored.items():
        if key not in kept:
            raise UserError(
                f"--resume: the checkpoint holds each rank's {key!r}, gradients that are still to "
                f"be applied, and this run would drop it: {changed}. Set it back, or start a run "
                "in another run.dir"
            )
        if array.shape[1:] != kept[key].shape or array.dtype != kept[key].dtype:
            raise UserError(f"--resume: {key!r} has another size or type in this run: {changed}")
    for key in kept:
        if key not in stored:
            raise UserError(
                f"--resume: the checkpoint has no {key!r}, which this run needs: {changed}. Set it "
                "back, or start a run in another run.dir"
            )


def _unknown(run: Run, tensors: Tensors) -> str | None:
    """Look for arrays that nothing takes."""
    taken = {TALLY, *(ROWS + name for name in vectors(run))}
    taken |= {STATE + key for key in run.consistency.arrays(run.consistency_state)}
    taken |= {f"{name}/{leaf}" for name in vectors(run) for leaf in slices_of(run, name)}
    left = sorted(tensors.keys() - taken)
    return f"it has {_short(left[0])}, which nothing takes" if left else None


def _leaves(tensors: Tensors, name: str) -> Tensors:
    """Return the arrays below a name, each by the rest of its own."""
    start = f"{name}/"
    return {n.removeprefix(start): a for n, a in tensors.items() if n.startswith(start)}


def _unfit(name: str, stored: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> str:
    return f"{name} has shape {stored.shape} and dtype {stored.dtype}: needs {shape} and {dtype}"
