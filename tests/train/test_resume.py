"""A run that is killed and continued ends as one that was not."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.train.tools import (
    alive,
    checkpoints,
    command,
    final,
    losses,
    metrics,
    ranks_of,
    start_from,
    train,
    wait_for,
    write_config,
)

KINDS = {
    "synchronous": [],
    "float32": ["run.dtype='float32'"],
    "qsgd": ["compression.codec='qsgd'"],
    "topk": ["compression.codec='topk'"],
    "local_sgd": ["consistency.name='local_sgd'", "consistency.period=7"],
    "local statistics": [
        "model.layers=[{type='flatten'},{type='batchnorm',statistics='local'},{type='dense',units=10}]"
    ],
}


def same(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert first[name].tobytes() == second[name].tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_resume_within_an_epoch_is_bitwise_the_uninterrupted_run(tmp_path, kind):
    config = write_config(tmp_path, tmp_path)
    sets = [*KINDS[kind], "checkpoint.every_steps=10"]
    train(config, *sets, ranks=3)
    whole = tmp_path / "run"
    assert [int(p.stem.split("-")[-1]) for p in checkpoints(whole)] == [
        10, 20, 23, 30, 40, 46, 50, 60, 69,
    ]  # fmt: skip
    again = tmp_path / "again"
    start_from(whole, 3, again)  # step 30, within the second epoch
    done = train(config, *sets, f"run.dir='{again}'", ranks=3, options=["--resume"])
    assert "resume at step 30 of 69" in done.stdout
    assert losses(again) == losses(whole)
    same(final(again), final(whole))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("kind", ["synchronous", "topk", "local_sgd"])
def test_resume_on_another_number_of_ranks(tmp_path, ranks, kind):
    config = write_config(tmp_path, tmp_path)
    sets = [*KINDS[kind], "checkpoint.every_steps=10"]
    train(config, *sets, ranks=3)
    whole, again = tmp_path / "run", tmp_path / "again"
    start_from(whole, 3, again)
    train(config, *sets, f"run.dir='{again}'", ranks=ranks, options=["--resume"])
    if kind == "synchronous":
        np.testing.assert_allclose(losses(again), losses(whole), rtol=1e-12)
    else:  # what each rank keeps for itself is united: another run, which still trains
        assert metrics(again)[-1]["step"] == 69
        assert metrics(again)[-1]["train_loss"] < metrics(again)[0]["train_loss"]


def test_kill_one_rank_then_resume(tmp_path):
    config = write_config(tmp_path, tmp_path)
    sets = ["train.epochs=12", "checkpoint.every_steps=10"]
    train(config, *sets, ranks=3)
    whole, killed = tmp_path / "run", tmp_path / "killed"
    sets.append(f"run.dir='{killed}'")
    job = subprocess.Popen(
        command(config, *sets, ranks=3),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(checkpoints(killed)) >= 4)
    pids = ranks_of(str(killed))
    assert sorted(pids) == [0, 1, 2]
    os.kill(pids[1], signal.SIGKILL)
    began = time.monotonic()
    assert job.wait(10) != 0
    assert time.monotonic() - began < 5
    wait_for(lambda: not any(map(alive, pids.values())), 5)
    assert len(checkpoints(killed)) < len(checkpoints(whole)), "it was over before the kill"
    train(config, *sets, ranks=3, options=["--resume"])
    assert losses(killed) == losses(whole)
    same(final(killed), final(whole))


@pytest.mark.parametrize(("kind", "every"), [("synchronous", 10), ("local_sgd", 23)])
def test_a_signal_stops_the_run_in_good_order(tmp_path, kind, every):
    """Also at the last step of an epoch, whose metrics are then there."""
    config = write_config(tmp_path, tmp_path)
    sets = [
        "train.epochs=12",
        "checkpoint.every_steps=1000",
        f"run.log_every={every}",
        *KINDS[kind],
    ]
    train(config, *sets, ranks=3)
    whole, stopped = tmp_path / "run", tmp_path / "stopped"
    sets.append(f"run.dir='{stopped}'")
    job = subprocess.Popen(
        command(config, *sets, ranks=3),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: len(checkpoints(stopped)) >= 2)
    os.kill(ranks_of(str(stopped))[1], signal.SIGUSR1)
    _, said = job.communicate(timeout=30)
    assert job.returncode != 0
    assert "stopped by SIGUSR1" in said
    assert "Traceback" not in said
    assert int(checkpoints(stopped)[-1].stem.split("-")[-1]) % every == 0
    train(config, *sets, ranks=3, options=["--resume"])
    assert losses(stopped) == losses(whole)
    same(final(stopped), final(whole))


def test_a_broken_newest_checkpoint_is_reported_and_the_one_before_is_used(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, ranks=2)
    run = tmp_path / "run"
    before, want = losses(run), final(run)
    newest = checkpoints(run)[-1]
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 1
    newest.write_bytes(raw)
    done = train(config, ranks=2, options=["--resume"])
    assert "broken checkpoint" in done.stdout
    assert newest.name in done.stdout
    assert "resume at step 46 of 69" in done.stdout
    assert losses(run) == before
    same(final(run), want)


def test_resume_of_a_finished_run_changes_nothing(tmp_path):
    def files():
        """What a run leaves; a lock says who was there last."""
        found = (p for p in (tmp_path / "run").rglob("*") if p.is_file() and p.name != ".lock")
        return {p: p.read_bytes() for p in found}

    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1", ranks=2)
    before = files()
    train(config, "train.epochs=1", ranks=2, options=["--resume"])
    assert files() == before


def test_resume_without_a_checkpoint_starts_anew(tmp_path):
    done = train(write_config(tmp_path, tmp_path), "train.epochs=1", options=["--resume"])
    assert "no checkpoint" in done.stdout
    assert metrics(tmp_path / "run")[-1]["step"] == 23


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("model.layers=[{type='flatten'},{type='dense',units=10}]", "another network"),
        ("run.dtype='float32'", "float64"),
        ("run.seed=1", "run.seed 0, this one 1"),
        ("train.batch=32", "steps per epoch"),
        ("train.batch=65", "train.batch 64, this one 65"),
        ("optimizer.momentum=0", "velocity"),
    ],
)
def test_resume_of_something_else_is_refused(tmp_path, change, text):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1")
    done = train(config, change, ranks=2, options=["--resume"], ok=False)
    assert done.returncode != 0
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert len(checkpoints(tmp_path / "run")) == 1


def test_a_new_run_in_the_same_folder_loses_nothing(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1")
    first = final(tmp_path / "run")
    done = train(config, "train.epochs=1", "run.seed=3")
    assert "earlier-1" in done.stdout
    same(final(tmp_path / "run" / "earlier-1"), first)
    assert len(metrics(tmp_path / "run")) == 1
