"""The state of a run as named arrays, and back: what a checkpoint holds.

Weights, state and optimizer state are stored once, by the names of the layers, where they are the
same on all ranks; so a checkpoint starts on any number of ranks and any grid. What each rank has
for itself (residuals of compression, weights between two averages, its share of the epoch's sums)
is stored with a row for each rank, under ``ranks/``. On the same number of ranks each rank gets
its row back, and the run goes on bitwise as it would have. On another number the rows are united:
weights and momentum are averaged, residuals and sums keep their total.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from collectives import bcast
from hpcdl.array import namespace, to_host
from hpcdl.errors import DivergedError, UserError
from hpcdl.loop import Run
from hpcdl.nn.pack import Slices

Tensors = dict[str, NDArray[Any]]
Attrs = dict[str, Any]


def capture(run: Run) -> tuple[Tensors, Attrs]:
    """Return the state of a run; collective, complete on rank 0 only.

    Raises:
        DivergedError: the weights are not finite: such a state is not worth keeping.
    """
    packed, comm = run.model.packed, run.comm
    xp = namespace(packed.vector)
    if not bool(xp.isfinite(packed.vector).all()):
        raise DivergedError(
            f"weights after step {run.step} are not finite: training has diverged; "
            "no checkpoint was written, the earlier ones are as they were"
        )
    tensors: Tensors = {}
    for name, vector in _vectors(run).items():
        slices = packed.buffer_slices if name == "buffers" else packed.slices
        host = to_host(vector)
        digests = comm.allgather(hashlib.sha256(host.tobytes()).digest())
        if len(set(digests)) == 1:
            tensors |= _named(name, host, slices)
        else:
            _gather(f"ranks/{name}", host, comm, tensors)
    for key, array in run.consistency.arrays(run.consistency_state).items():
        _gather(f"ranks/consistency/{key}", to_host(array), comm, tensors)
    _gather("ranks/tally", run.tally, comm, tensors)
    return tensors, {"step": run.step, "ranks": comm.Get_size(), "seconds": run.elapsed()} | _key(
        run
    )


def restore(run: Run, tensors: Mapping[str, NDArray[Any]], attrs: Mapping[str, Any]) -> None:
    """Put a captured state into a run; collective. Only rank 0 needs to have the state.

    Raises:
        UserError: the state is that of another network, or of a run with another order of samples.
    """
    comm, packed = run.comm, run.model.packed
    attrs = comm.bcast(dict(attrs), 0)
    for name, (mine, what) in _key_names(run).items():
        if attrs.get(name) != mine:
            raise UserError(
                f"--resume: the run in the checkpoint has {what} {attrs.get(name)}, this one "
                f"{mine}; its position in the epoch would not mean the same"
            )
    arrays = dict(tensors)
    problem = _misfit(run, arrays) if comm.Get_rank() == 0 else None
    if (problem := comm.bcast(problem, 0)) is not None:
        raise UserError(f"--resume: {problem}")
    own_rows = attrs["ranks"] == comm.Get_size()
    for name, vector in _vectors(run).items():
        slices = packed.buffer_slices if name == "buffers" else packed.slices
        rows = comm.bcast(f"ranks/{name}" in arrays, 0)
        if rows:
            host = _scatter(arrays.get(f"ranks/{name}"), vector, comm, own_rows, total=False)
        else:
            host = np.empty(vector.shape, vector.dtype)
            if comm.Get_rank() == 0:
                for leaf, (start, stop, _) in slices.items():
                    host[start:stop] = arrays[f"{name}/{leaf}"].reshape(-1)
            bcast(host, comm=comm)
        vector[...] = namespace(vector).asarray(host)
    kept = run.consistency.arrays(run.consistency_state)
    run.consistency.restore(
        run.consistency_state,
        {
            key: _scatter(arrays.get(f"ranks/consistency/{key}"), a, comm, own_rows, total=True)
            for key, a in kept.items()
        },
    )
    tally = _scatter(arrays.get("ranks/tally"), run.tally, comm, own_rows, total=True)
    run.step, run.seconds = attrs["step"], attrs["seconds"]
    run.tally[:] = tally if run.step % run.data.steps_per_epoch else 0


def _vectors(run: Run) -> dict[str, Any]:
    """The flat vectors of a run, by the name under which they are stored."""
    packed = run.model.packed
    return {
        "params": packed.vector,
        "buffers": packed.buffers,
        **{f"optimizer/{key}": a for key, a in sorted(run.optimizer_state.items())},
    }


def _key_names(run: Run) -> dict[str, tuple[Any, str]]:
    """What must be the same for a position in an epoch to mean the same, and how to call it."""
    return {
        "seed": (run.seed, "run.seed"),
        "steps_per_epoch": (run.data.steps_per_epoch, "a number of steps per epoch of"),
        "samples": (run.data.samples, "a number of training samples of"),
    }


def _key(run: Run) -> Attrs:
    return {name: value for name, (value, _) in _key_names(run).items()}


def _named(name: str, vector: NDArray[Any], slices: Slices) -> Tensors:
    return {f"{name}/{k}": vector[a:b].reshape(shape) for k, (a, b, shape) in slices.items()}


def _misfit(run: Run, arrays: Tensors) -> str | None:
    """Say how the stored arrays do not fit the network, or None where they do."""
    packed = run.model.packed
    dtype = np.dtype(packed.vector.dtype)
    for name, vector in _vectors(run).items():
        if f"ranks/{name}" in arrays:
            if arrays[f"ranks/{name}"].shape[1:] != vector.shape:
                return f"{name} has {arrays[f'ranks/{name}'].shape[1]} values, not {vector.size}"
            continue
        slices = packed.buffer_slices if name == "buffers" else packed.slices
        for leaf, (_, _, shape) in slices.items():
            stored = arrays.get(f"{name}/{leaf}")
            if stored is None:
                return f"the checkpoint has no {name} of layer {leaf!r}: it is of another network"
            if stored.shape != shape or stored.dtype != dtype:
                return (
                    f"{name} of layer {leaf!r} has shape {stored.shape} and dtype {stored.dtype} "
                    f"in the checkpoint, {shape} and {dtype} in this network"
                )
        known = {f"{name}/{leaf}" for leaf in slices}
        for stored_name in arrays:
            if stored_name.startswith(f"{name}/") and stored_name not in known:
                return f"the checkpoint has {stored_name!r}, which this network has not"
    for key, array in run.consistency.arrays(run.consistency_state).items():
        stored = arrays.get(f"ranks/consistency/{key}")
        if stored is None or stored.shape[1:] != array.shape:
            return (
                f"the checkpoint has no {key!r} of this size: it was made with another "
                "[consistency] or [compression]"
            )
    return None


def _gather(name: str, mine: NDArray[Any], comm: MPI.Comm, tensors: Tensors) -> None:
    """Put the arrays of all ranks as rows into ``tensors[name]`` of rank 0."""
    mine = np.ascontiguousarray(mine)
    if comm.Get_rank() != 0:
        comm.Send([mine.reshape(-1).view(np.uint8), MPI.BYTE], 0)
        return
    rows = np.empty((comm.Get_size(), *mine.shape), mine.dtype)
    rows[0] = mine
    for rank in range(1, comm.Get_size()):
        comm.Recv([rows[rank].reshape(-1).view(np.uint8), MPI.BYTE], rank)
    tensors[name] = rows


def _scatter(
    rows: NDArray[Any] | None, like: Any, comm: MPI.Comm, own_rows: bool, *, total: bool
) -> NDArray[Any]:
    """Give each rank its row; or, to another number of ranks, their mean or a part of their sum."""
    size, rank = comm.Get_size(), comm.Get_rank()
    mine = np.empty(like.shape, like.dtype)
    if not own_rows:
        if rank == 0 and rows is not None:
            united = rows.astype(np.float64).sum(axis=0)
            mine[...] = united / (size if total else rows.shape[0])
        return np.asarray(bcast(mine, comm=comm))
    if rank == 0 and rows is not None:
        mine[...] = rows[0]
        for other in range(1, size):
            row = np.ascontiguousarray(rows[other])
            comm.Send([row.reshape(-1).view(np.uint8), MPI.BYTE], other)
    else:
        comm.Recv([mine.reshape(-1).view(np.uint8), MPI.BYTE], 0)
    return mine
