"""Jobs of their own, for tests in which the job ends before its time."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.conftest import LAUNCH

PREFIXES = ["", "other"]
"""The MPI of this environment, and the one that ``--mpi NAME=PREFIX`` names."""


def run_job(tmp_path, config, mpi, ranks, script, timeout=60):
    """Run a script on so many ranks, in ``tmp_path``; return the process, and its seconds."""
    env = dict(os.environ)
    if mpi:
        if not config.mpis:
            pytest.skip("no second MPI was given (--mpi NAME=PREFIX)")
        prefix = next(iter(config.mpis.values()))
        env["MPI4PY_LIBMPI"] = str(next(Path(prefix, "lib").glob("libmpi.so.[0-9]*")).resolve())
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(ranks), sys.executable, str(path)],
        capture_output=True,
        text=True,
        env=env,
        cwd=tmp_path,
        timeout=timeout,
    )
    return done, time.monotonic() - begin
