"""How ``bench`` starts its ranks, and that they do not start any."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from collectives import __main__ as cli
from collectives import launch

LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "SLURM_")


def without_launcher():
    """The environment of a process that no launcher of MPI has started."""
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}


@pytest.fixture
def started(monkeypatch):
    """What would be started, instead of starting it."""
    calls = []

    def note(ranks, program):
        calls.append((ranks, program))
        raise launch.LaunchError("only noted")

    monkeypatch.setattr(launch, "launcher_size", lambda env: None)
    monkeypatch.setattr(launch, "replace_by_mpiexec", note)
    return calls


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (["allreduce", "--ranks", "3", "--sizes", "8"], 3),
        (["allreduce", "--ranks=4"], 4),
        (["bcast", "--rank", "5"], 5),
        (["bcast"], 2),
        (["--", "bcast"], 2),
    ],
)
def test_the_number_of_ranks_is_handed_on_once(words, ranks, started, capsys):
    assert cli.main(["bench", *words]) == 1
    assert capsys.readouterr().err == "python -m collectives bench: error: only noted\n"
    head = [sys.executable, "-m", "collectives", "bench"]
    assert started == [(ranks, [*head, "--started", str(ranks), *words])]


@pytest.mark.parametrize("extra", [[], ["--ranks", "3"]])
def test_a_started_rank_never_starts_ranks(extra):
    # No launcher says anything in the environment: this is a job of one.
    words = ["bench", "allreduce", "--started", "3", "--sizes", "8", *extra]
    done = subprocess.run(
        [sys.executable, "-m", "collectives", *words],
        env=without_launcher(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "the job was started for 3 ranks, but MPI sees 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_ranks_are_started_also_where_standard_output_is_closed(monkeypatch):
    ran = []
    monkeypatch.setattr(launch, "launcher_size", lambda env: None)
    monkeypatch.setattr(launch, "mpiexec_command", lambda ranks, program: [*program])
    monkeypatch.setattr(os, "execve", lambda path, words, env: ran.append(words))
    monkeypatch.setattr(launch.signal, "signal", lambda *args: None)
    monkeypatch.setattr(sys, "stdout", None)
    launch.replace_by_mpiexec(2, ["program"])
    assert ran == [["program"]]


@pytest.mark.parametrize(
    "command",
    [
        ["bench", "allreduce", "--bytes", "1M", "--budget", "50s"],
        ["tune", "-n", "2", "-o", "table.toml"],
    ],
)
def test_ctrl_c_ends_a_job_in_a_line(tmp_path, command):
    with subprocess.Popen(
        [sys.executable, "-m", "collectives", *command],
        env=without_launcher(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as job:
        try:
            assert job.stdout.readline()
            os.killpg(job.pid, signal.SIGINT)
            _, said = job.communicate(timeout=30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode != 0
    assert "error: interrupted" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("module", ["mpi4py", "mpi4py.MPI"])
def test_without_mpi_one_line_names_the_extra(module):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from collectives.__main__ import main; sys.exit(main(['bench', 'allreduce']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=without_launcher(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("python -m collectives bench: error: needs mpi4py and an MPI (")
    assert "pip install 'hpcdl[mpich]'" in done.stderr
