"""The harness itself: what fails, hangs, dies or is skipped inside mpiexec is told as such."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"

SOURCE = """
    import os, time, pytest

    @pytest.mark.ranks(2)
    def test_passes(comm):
        assert comm.allreduce(1) == 2

    @pytest.mark.ranks(2)
    def test_fails_on_one_rank(comm):
        assert comm.rank == 0, "only rank 1 fails"
        comm.Barrier()

    @pytest.mark.ranks(2)
    def test_dies(comm):
        if comm.rank == 1:
            os._exit(7)
        comm.Barrier()

    @pytest.mark.ranks(2)
    def test_hangs(comm):
        if comm.rank == 1:
            comm.recv(source=0)

    @pytest.mark.ranks(2)
    def test_comes_after(comm):
        assert comm.size == 2
"""


def run(directory, source, *options, seconds=""):
    """Run pytest with our conftest on a module of its own."""
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = ranks\n")
    (directory / "test_it.py").write_text(textwrap.dedent(source))
    conftest = CONFTEST.read_text()
    if seconds:
        conftest = conftest.replace("TEST_SECONDS = 60", f"TEST_SECONDS = {seconds}")
    (directory / "conftest.py").write_text(conftest)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", f"--rootdir={directory}", str(directory), *options],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=120,
    )


def test_each_ending_is_told(tmp_path):
    done = run(tmp_path, SOURCE, seconds="5")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "3 failed" in done.stdout
    assert "only rank 1 fails" in done.stdout
    assert "---- rank 1 of 2" in done.stdout
    # The stacks of the hanging rank, down to the line that waits.
    assert "in test_hangs" in done.stdout
    assert "(exit code" in done.stdout


def test_a_run_with_everything_skipped_fails(tmp_path):
    done = run(
        tmp_path,
        """
        import pytest

        @pytest.mark.ranks(2)
        def test_it(comm):
            pytest.skip("no reason")
        """,
    )
    assert "1 skipped" in done.stdout
    assert done.returncode == 1


def test_a_test_with_ranks_needs_comm(tmp_path):
    done = run(
        tmp_path,
        """
        import pytest

        @pytest.mark.ranks(2)
        def test_it():
            pass
        """,
    )
    assert done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "takes `comm`" in done.stdout + done.stderr
