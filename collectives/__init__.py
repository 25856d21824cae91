"""MPI collectives as schedules that can be read, proved, simulated, drawn and run.

    import numpy as np
    from mpi4py import MPI
    import collectives

    x = np.ones(1000, np.float32)
    collectives.allreduce(x, comm=MPI.COMM_WORLD, algorithm="ring")

`collectives.step` says what a schedule is; `python -m collectives --help` shows the tools. Names
that need MPI are imported at first use, so that the pure parts work where no MPI is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from collectives.op import MAX, MIN, PROD, SUM, Op
from collectives.traffic import Traffic

if TYPE_CHECKING:
    from collectives.abort import abort_on_exception
    from collectives.agreement import AgreementError
    from collectives.api import (
        allgather,
        allreduce,
        alltoall,
        barrier,
        bcast,
        gather,
        reduce,
        reduce_scatter,
        scatter,
    )
    from collectives.fusion import allreduce_many, plan_allreduce_many
    from collectives.intracomm import as_intracomm
    from collectives.launch import check_launcher
    from collectives.plan import Plan
    from collectives.plans import (
        plan_allgather,
        plan_allreduce,
        plan_alltoall,
        plan_barrier,
        plan_bcast,
        plan_gather,
        plan_neighbor,
        plan_reduce,
        plan_reduce_scatter,
        plan_scatter,
    )
    from collectives.table import Table
    from collectives.window import empty

_HOME = {
    "abort_on_exception": "abort",
    "as_intracomm": "intracomm",
    "check_launcher": "launch",
    "Plan": "plan",
    "AgreementError": "agreement",
    "allreduce_many": "fusion",
    "empty": "window",
    "Table": "table",
    "plan_allreduce_many": "fusion",
    **dict.fromkeys(
        (
            "allgather",
            "allreduce",
            "alltoall",
            "barrier",
            "bcast",
            "gather",
            "reduce",
            "reduce_scatter",
            "scatter",
        ),
        "api",
    ),
    **dict.fromkeys(
        (
            "plan_allgather",
            "plan_allreduce",
            "plan_alltoall",
            "plan_barrier",
            "plan_bcast",
            "plan_gather",
            "plan_neighbor",
            "plan_reduce",
            "plan_reduce_scatter",
            "plan_scatter",
        ),
        "plans",
    ),
}

__all__ = [
    "MAX",
    "MIN",
    "PROD",
    "SUM",
    "AgreementError",
    "Op",
    "Plan",
    "Table",
    "Traffic",
    "abort_on_exception",
    "allgather",
    "allreduce",
    "allreduce_many",
    "alltoall",
    "as_intracomm",
    "barrier",
    "bcast",
    "check_launcher",
    "empty",
    "gather",
    "plan_allgather",
    "plan_allreduce",
    "plan_allreduce_many",
    "plan_alltoall",
    "plan_barrier",
    "plan_bcast",
    "plan_gather",
    "plan_neighbor",
    "plan_reduce",
    "plan_reduce_scatter",
    "plan_scatter",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'collectives' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"collectives.{_HOME[name]}"), name)
    globals()[name] = found  # the next look does not come here
    return found
