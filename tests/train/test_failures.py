"""Whatever goes wrong ends the whole job soon, says what it is, and loses nothing."""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from hpcdl.checkpoint import read
from tests.conftest import LAUNCH
from tests.train.tools import checkpoints, command, train, write_config


def refused(done, *texts):
    assert done.returncode != 0
    for text in texts:
        assert text in done.stderr, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_nan_loss(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1", ranks=2)
    (kept,) = checkpoints(tmp_path / "run")
    # From the checkpoint on, with a rate that no network survives.
    began = time.monotonic()
    done = train(config, "optimizer.lr=1e200", ranks=2, options=["--resume"], ok=False)
    assert time.monotonic() - began < 20
    refused(done, "diverged", "optimizer.lr")
    assert checkpoints(tmp_path / "run") == [kept]
    read(kept)


@pytest.mark.parametrize("damage", ["missing", "truncated", "text", "no data set", "wrong shape"])
def test_a_bad_data_file(tmp_path, damage):
    import h5py

    config = write_config(tmp_path, tmp_path)
    path = tmp_path / "mine.h5"
    train(config, "train.epochs=1")
    whole = (tmp_path / "digits.h5").read_bytes()
    text = str(path)
    if damage == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
        text = "truncated"
    elif damage == "text":
        path.write_text("not HDF5\n" * 1000)
        text = "not an HDF5 file"
    elif damage == "no data set":
        path.write_bytes(whole)
        with h5py.File(path, "a") as file:
            del file["train/target"]
        text = "train/target"
    elif damage == "wrong shape":
        path.write_bytes(whole)
        with h5py.File(path, "a") as file:
            images = file["train/input"][...].reshape(-1, 64)
            del file["train/input"]
            file["train/input"] = images
        text = "(64,)"
    done = train(config, f"data.file='{path}'", ranks=3, ok=False, timeout=30)
    refused(done, text)


def test_a_full_disk_at_checkpoint_time(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=2", ranks=2)
    kept = checkpoints(tmp_path / "run")
    size = kept[-1].stat().st_size

    done, _ = run_script(
        tmp_path,
        2,
        f"""
        import resource
        from mpi4py import MPI
        from collectives import abort_on_exception
        from hpcdl.config import load
        from hpcdl.run import run

        with abort_on_exception(MPI.COMM_WORLD):
            resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2}, {size // 2}))
            run(load({str(config)!r}), MPI.COMM_WORLD, resume=True)
        """,
    )
    refused(done, "cannot be written: File too large")
    assert checkpoints(tmp_path / "run") == kept
    assert sorted((tmp_path / "run" / "checkpoints").iterdir()) == kept, "a temporary file is left"
    for path in kept:
        read(path)
    train(config, ranks=2, options=["--resume"])  # with room, it goes on


@pytest.mark.parametrize(
    ("sets", "ranks", "text"),
    [
        (["grid.data=2"], 3, "2 x 1 = 2"),
        (["grid.height=2"], 3, "a multiple of 2"),
        (["train.epoch=3"], 2, "did you mean 'epochs'"),
        (["optimizer.lr=fast"], 2, "optimizer.lr"),
        (["grid.height=2", "consistency.name='local_sgd'"], 2, "grid.height=2"),
        (["consistency.name='local_sgd'", "compression.codec='topk'"], 2, "compression.codec"),
        (["schedule.warmup_epochs=9"], 2, "at most train.epochs"),
        (["run.device='cuda'"], 2, "run.device='cuda'"),
        (["model.layers=[{type='dense',units=10}]"], 2, "needs a flat input"),
        (
            ["model.layers=[{type='flatten'},{type='dense',units=9}]"],
            2,
            "one output for each class",
        ),
        (["train.batch=9999", "train.drop_last=true"], 2, "drop_last"),
    ],
)
def test_a_configuration_that_cannot_be(tmp_path, sets, ranks, text):
    done = train(write_config(tmp_path, tmp_path), *sets, ranks=ranks, ok=False, timeout=30)
    refused(done, text)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_more_rows_of_ranks_than_rows(tmp_path):
    """A height of 8 over 8 ranks leaves half of them without rows after the pooling."""
    config = write_config(tmp_path, tmp_path)
    done = train(config, "grid.height=8", "train.epochs=1", ranks=8, ok=False, timeout=60)
    if done.returncode:
        refused(done, "height")
    else:
        assert len(checkpoints(tmp_path / "run")) == 1


def run_script(tmp_path, ranks, script, **more):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(ranks), sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=30,
        **more,
    )
    return done, time.monotonic() - began


@pytest.mark.parametrize("mpi", ["", "other"])
@pytest.mark.parametrize("way", ["statement", "context", "thread"])
def test_an_exception_on_one_rank_ends_the_job(tmp_path, pytestconfig, way, mpi):
    env = dict(os.environ)
    if mpi:
        if not pytestconfig.mpis:
            pytest.skip("no second MPI was given (--mpi NAME=PREFIX)")
        from pathlib import Path

        (prefix,) = pytestconfig.mpis.values()
        env["MPI4PY_LIBMPI"] = str(next(Path(prefix, "lib").glob("libmpi.so.[0-9]*")).resolve())
    body = {
        "statement": "abort_on_exception(comm); work()",
        "context": "\nwith abort_on_exception(comm):\n    work()",
        "thread": "abort_on_exception(comm); t = threading.Thread(target=work); t.start()",
    }[way]
    done, seconds = run_script(
        tmp_path,
        4,
        """
import threading, time
from mpi4py import MPI
from collectives import abort_on_exception
comm = MPI.COMM_WORLD
def work():
    if comm.rank == 2:
        raise ArithmeticError("only here")
    comm.Barrier()
"""
        + body,
        env=env,
    )
    assert done.returncode != 0
    assert "[rank 2 of 4] ArithmeticError: only here" in done.stderr
    assert "[rank 2 of 4] Traceback" in done.stderr
    assert seconds < 10  # of which the start of the job takes most


def test_a_non_zero_exit_of_one_rank_ends_the_job(tmp_path):
    done, seconds = run_script(
        tmp_path,
        3,
        """
        import sys
        from mpi4py import MPI
        from collectives import abort_on_exception
        comm = MPI.COMM_WORLD
        with abort_on_exception(comm):
            if comm.rank == 1:
                sys.exit(7)
            comm.Barrier()
        """,
    )
    assert done.returncode != 0
    assert "[rank 1 of 3] sys.exit(7)" in done.stderr
    assert seconds < 10


@pytest.mark.parametrize(
    "body",
    [
        "sys.stdout.close(); raise ValueError('x')",
        "sys.stdout = None; raise ValueError('x')",
        "sys.stderr.close(); raise ValueError('x')",
        "own.Free(); raise ValueError('x')",
        "raise Unprintable",
        "sys.exit(256)",
        "sys.exit(1 << 40)",
        "sys.exit('a text')",
        "abort_on_exception(comm); raise ValueError('x')",
    ],
)
def test_the_job_ends_in_whatever_state_the_rank_is(tmp_path, body):
    done, seconds = run_script(
        tmp_path,
        2,
        f"""
        import sys
        from mpi4py import MPI
        from collectives import abort_on_exception
        comm = MPI.COMM_WORLD
        own = comm.Dup()
        class Unprintable(Exception):
            plain = True
            def __str__(self):
                raise RuntimeError
        with abort_on_exception(own):
            if comm.rank == 1:
                {body}
            comm.Barrier()
        """,
    )
    assert done.returncode != 0
    assert seconds < 10


def test_a_statement_inside_a_block_holds_after_it(tmp_path):
    done, _ = run_script(
        tmp_path,
        2,
        """
        from mpi4py import MPI
        from collectives import abort_on_exception
        comm = MPI.COMM_WORLD
        with abort_on_exception(comm):
            abort_on_exception(comm)
        if comm.rank == 1:
            raise ValueError("after the block")
        comm.Barrier()
        """,
    )
    assert done.returncode != 0
    assert "[rank 1 of 2] ValueError: after the block" in done.stderr


def test_hooks_are_put_back_after_the_block(tmp_path):
    done, _ = run_script(
        tmp_path,
        1,
        """
        import sys
        from mpi4py import MPI
        from collectives import abort_on_exception
        before = sys.excepthook
        with abort_on_exception(MPI.COMM_WORLD):
            assert sys.excepthook != before
        assert sys.excepthook == before
        print("put back")
        """,
    )
    assert done.stdout == "put back\n"


def test_the_wrong_launcher_is_found(tmp_path, pytestconfig):
    """mpiexec of Open MPI starts programs that load MPICH: each would be alone in its job."""
    config = write_config(tmp_path, tmp_path)
    words = command(config)
    if pytestconfig.mpis:
        (prefix,) = pytestconfig.mpis.values()
        words = [
            f"{prefix}/bin/mpiexec",
            "--allow-run-as-root",
            "--oversubscribe",
            "-n",
            "2",
            *words,
        ]
        env = dict(os.environ)
    else:
        env = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode != 0
    assert "OMPI_COMM_WORLD_SIZE=2" in done.stderr
    assert "alone in a job of 1" in done.stderr
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_launching_from_inside_a_job_is_refused(tmp_path):
    config = write_config(tmp_path, tmp_path)
    env = {**os.environ, "PMI_SIZE": "2"}
    refused(train(config, ranks=2, ok=False, env=env), "leave -n out")
