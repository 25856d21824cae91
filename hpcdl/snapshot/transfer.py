"""Take the state of a run from all ranks, and give it back to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from collectives import bcast
from hpcdl.array import namespace, to_host
from hpcdl.errors import DivergedError
from hpcdl.loop import Run
from hpcdl.nn.pack import Slices
from hpcdl.snapshot.meaning import ROWS, STATE, TALLY, Attrs, Tensors, meaning, slices_of, vectors


def capture(run: Run) -> tuple[Tensors, Attrs]:
    """Return the state of a run; collective, complete on rank 0 only.

    Raises:
        DivergedError: weights or state are not finite: such a state is not worth keeping.
    """
    comm = run.comm
    kept = run.consistency.arrays(run.consistency_state)
    _refuse_diverged(run, kept)
    tensors: Tensors = {}
    for name, vector in vectors(run).items():
        host = to_host(vector)
        digests = comm.allgather(hashlib.sha256(host.tobytes()).digest())
        if len(set(digests)) == 1:
            tensors |= _named(name, host, slices_of(run, name))
        else:
            _gather(ROWS + name, host, comm, tensors)
    for key, array in kept.items():
        _gather(STATE + key, to_host(array), comm, tensors)
    _gather(TALLY, run.tally, comm, tensors)
    position = {"step": run.step, "ranks": comm.Get_size(), "seconds": run.elapsed()}
    return tensors, position | meaning(run)


def restore(run: Run, tensors: Mapping[str, NDArray[Any]], attrs: Mapping[str, Any]) -> None:
    """Put a captured state into a run; collective.

    Args:
        run: it gets the state.
        tensors: the arrays, on rank 0, where they have passed `hpcdl.snapshot.check`.
        attrs: the attributes, on rank 0.
    """
    comm = run.comm
    attrs, stored = comm.bcast((dict(attrs), set(tensors)), 0)
    own_rows = (
        attrs["ranks"] == comm.Get_size() and attrs["consistency"] == meaning(run)["consistency"]
    )
    for name, vector in vectors(run).items():
        if ROWS + name in stored:
            host = _scatter(tensors, ROWS + name, vector, comm, own_rows, total=False)
        else:
            host = np.empty(vector.shape, vector.dtype)
            if comm.Get_rank() == 0:
                for leaf, (start, stop, _) in slices_of(run, name).items():
                    host[start:stop] = tensors[f"{name}/{leaf}"].reshape(-1)
            bcast(host, comm=comm)
        vector[...] = namespace(vector).asarray(host)
    run.consistency.restore(
        run.consistency_state,
        {
            key: _scatter(tensors, STATE + key, array, comm, own_rows, total=True)
            for key, array in run.consistency.arrays(run.consistency_state).items()
        },
    )
    tally = _scatter(tensors, TALLY, run.tally, comm, own_rows, total=True)
    run.step, run.seconds = attrs["step"], attrs["seconds"]
    run.tally[:] = tally if run.step % run.data.steps_per_epoch else 0


def _refuse_diverged(run: Run, kept: Mapping[str, Any]) -> None:
    """Raise on all ranks where an array of any of them is not finite."""
    arrays = {"weights": run.model.parameters, **vectors(run), **kept, "sums": run.tally}
    bad = [n for n, a in arrays.items() if not bool(namespace(a).isfinite(a).all())]
    found = [name for names in run.comm.allgather(bad) for name in names]
    if found:
        raise DivergedError(
            f"{found[0]} after step {run.step} are not finite: training has diverged; "
            "no checkpoint was written, the earlier ones are as they were"
        )


def _named(name: str, vector: NDArray[Any], slices: Slices) -> Tensors:
    return {f"{name}/{k}": vector[a:b].reshape(shape) for k, (a, b, shape) in slices.items()}


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
    tensors: Mapping[str, NDArray[Any]],
    name: str,
    like: Any,
    comm: MPI.Comm,
    own_rows: bool,
    *,
    total: bool,
) -> NDArray[Any]:
    """Give each rank its row; or to all alike the mean of the rows, or a part of their sum."""
    size, rank = comm.Get_size(), comm.Get_rank()
    mine: NDArray[Any] = np.empty(like.shape, like.dtype)
    if not own_rows:
        if rank == 0:
            rows = tensors[name]
            mine[...] = rows.sum(axis=0, dtype=np.float64) / (size if total else len(rows))
        return np.asarray(bcast(mine, comm=comm))
    if rank == 0:
        rows = tensors[name]
        mine[...] = rows[0]
        for other in range(1, size):
            row = np.ascontiguousarray(rows[other])
            comm.Send([row.reshape(-1).view(np.uint8), MPI.BYTE], other)
    else:
        comm.Recv([mine.reshape(-1).view(np.uint8), MPI.BYTE], 0)
    return mine
