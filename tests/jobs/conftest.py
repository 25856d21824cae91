import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.slurm_cluster import Cluster, slurm_cluster, why_not


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two virtual nodes of four CPUs under a real Slurm."""
    if reason := why_not():
        pytest.skip(reason)
    with slurm_cluster(nodes=2, cpus=4) as running:
        yield running


@pytest.fixture(scope="session")
def launcher() -> str:
    """The flavour of srun that goes with the MPI that mpi4py loads."""
    code = (
        "import mpi4py; mpi4py.rc.initialize = False; "
        "from mpi4py import MPI; print(MPI.Get_library_version())"
    )
    version = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return "pmix" if version.startswith("Open MPI") else "pmi2"
