"""What a whole process takes: to import, to make its first call, to simulate. In processes apart.

They are started before the ranks are, by the process that starts these, so that nothing else runs
beside them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from collectives.bench import limits
from collectives.bench.limits import Check
from collectives.launch import launch_environment, mpiexec_command

_IMPORTS = 5

_IMPORT = """
from time import perf_counter
begin = perf_counter()
import collectives
print(perf_counter() - begin)
"""

_FIRST_CALL = """
from time import perf_counter
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
x = np.ones(1000, np.float32)
comm.Barrier()
begin = perf_counter()
import collectives
with collectives.plan_allreduce(x, comm=comm, algorithm="ring", executor="native") as plan:
    plan.run()
seconds = comm.reduce(perf_counter() - begin, MPI.MAX)
if seconds is not None:
    print(seconds)
"""

_SIMULATION = """
from time import perf_counter
begin = perf_counter()
import collectives.algorithms
from collectives.collective import ALLREDUCE
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.simulate import simulate
model, p, n = Model(), 10_000, 100_000_000
found = simulate(REGISTRY.get(ALLREDUCE, "ring"), p, n, model).seconds
print(perf_counter() - begin)
formula = 2 * (p - 1) * model.message(n / p) + (p - 1) * n / p * model.reduce_time
print(abs(found / formula - 1))
"""


def facts(ranks: int) -> list[Check]:
    """Measure them.

    Args:
        ranks: that make the first call of the native executor together.

    Raises:
        collectives.launch.LaunchError: there is no mpiexec.
    """
    python = [sys.executable, "-c"]
    imports = [_numbers([*python, _IMPORT])[:1] for _ in range(_IMPORTS)]
    times = [t for found in imports for t in found]
    # The first run may compile, and keeps what it has compiled.
    first = [_numbers(mpiexec_command(ranks, [*python, _FIRST_CALL]), ranks) for _ in range(2)][1]
    simulation = _numbers([*python, _SIMULATION])
    return [
        Check(
            "import collectives",
            statistics.median(times) if times else None,
            limits.IMPORT_SECONDS,
            " s",
            f"the median of {_IMPORTS} processes",
        ),
        Check(
            f"first native call of {ranks} ranks",
            first[0] if first else None,
            limits.FIRST_CALL_SECONDS,
            " s",
            "with all imports but MPI's, and compiled code from the cache",
        ),
        Check(
            "simulate a ring of 10000 ranks",
            simulation[0] if simulation else None,
            limits.SIMULATE_SECONDS,
            " s",
        ),
        Check(
            "its time off the closed form",
            simulation[1] if simulation else None,
            limits.SIMULATE_ERROR,
            "",
            "a fraction of it",
        ),
    ]


def _numbers(command: Sequence[str], ranks: int = 1) -> list[float]:
    """Run a program and return the numbers that it prints; none if it fails."""
    done = subprocess.run(
        command,
        env=launch_environment(ranks, os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return [float(word) for word in done.stdout.split()] if done.returncode == 0 else []
