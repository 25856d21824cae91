"""How to do each collective, in each form, ours and the library's."""

from __future__ import annotations

from collections.abc import Callable

from mpi4py import MPI

from collectives.bench import cases_move as move
from collectives.bench import cases_reduce as reduce
from collectives.bench.buffers import Buffers
from collectives.bench.form import Case
from collectives.bench.settings import Settings

CASES: dict[str, Callable[[MPI.Comm, Settings, Buffers], Case]] = {
    "allreduce": reduce.allreduce,
    "reduce": reduce.reduce,
    "bcast": move.bcast,
    "reduce_scatter": reduce.reduce_scatter,
    "allgather": move.allgather,
    "alltoall": move.alltoall,
    "gather": move.gather,
    "scatter": move.scatter,
    "barrier": move.barrier,
}
"""By name of the collective."""
