"""The folder of a run: its metrics, whatever became of them, and who may use it."""

import fcntl
import json
import os
import shutil
import subprocess

import numpy as np
import pytest

from hpcdl import metricsfile
from hpcdl.errors import UserError
from hpcdl.rundir import reserved, set_aside, using
from tests.train.tools import command, metrics, train, write_config

GOOD = {"epoch": 1, "step": 23, "train_loss": 0.5}


def test_lines_that_are_none_are_skipped_and_counted():
    deep = "[" * 100_000
    bad = ["[1,2]", "{broken", "3", "null", "{}", deep, '{"epoch": true}', '{"epoch": NaN}']
    bad += ['{"epoch": 1e999}', "9" * 5000, "\ufffd"]
    text = "\n".join([json.dumps(GOOD), *bad, "", json.dumps(GOOD)]) + "\n"
    assert metricsfile.parse_lines(text) == ([GOOD, GOOD], len(bad))
    assert metricsfile.parse_lines(text + '{"epo') == ([GOOD, GOOD], len(bad))


def test_what_is_written_is_json(tmp_path):
    def refuse(name):
        raise AssertionError(name)

    path = tmp_path / "m.jsonl"
    line = {"epoch": 1, "a": np.nan, "b": np.inf, "c": 0.5, "d": None}
    metricsfile.write(path, [line])
    metricsfile.append(path, line)
    read = [json.loads(raw, parse_constant=refuse) for raw in path.read_text().splitlines()]
    assert read == [{"epoch": 1, "a": None, "b": None, "c": 0.5, "d": None}] * 2


def test_a_resume_copes_with_damaged_metrics(tmp_path):
    config, run = write_config(tmp_path, tmp_path), tmp_path / "run"
    train(config, "train.epochs=2", "schedule.warmup_epochs=0")
    path = run / "metrics.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"[1,2]\n" + first + b"\xff\n" + b"[" * 9999 + b"\n" + second + b'{"epo')
    done = train(config, "schedule.warmup_epochs=0", options=["--resume"])
    assert done.stdout.count("metrics.jsonl: 3 lines could not be read: dropped") == 1
    assert [line["epoch"] for line in metrics(run)] == [1, 2, 3]
    for make in (os.mkdir, os.mkfifo):
        path.unlink() if path.is_file() else path.rmdir()
        make(path)
        done = train(config, options=["--resume"], ok=False, timeout=30)
        assert done.returncode == 1
        assert f"error: {path}: cannot be read: not a regular file" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_folder_that_is_a_file(tmp_path):
    config = write_config(tmp_path, tmp_path)
    (tmp_path / "run").write_text("mine")
    done = train(config, ok=False)
    assert f"error: {tmp_path / 'run'}: cannot be written: " in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "run").read_text() == "mine"


def test_using_names_the_file():
    match = r"^/dev/full: cannot be written: No space left"
    with pytest.raises(UserError, match=match), using("/dev/full"):
        metricsfile.append("/dev/full", GOOD)
    with pytest.raises(UserError, match=r"^a\\xff: cannot be written: "), using("a\udcff"):
        "\udcff".encode()


def test_a_folder_has_one_run_at_a_time(tmp_path):
    with reserved(tmp_path / "run"):
        match = rf"run: another run .*pid {os.getpid()} on "
        with pytest.raises(UserError, match=match), reserved(tmp_path / "run"):
            pass
        config = write_config(tmp_path, tmp_path)
        done = train(config, ranks=2, ok=False, timeout=30)
        assert f"{tmp_path / 'run'}: another run is using this folder (pid" in done.stderr
        assert "Traceback" not in done.stderr
        assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [".lock"]
    with reserved(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / ".lock").read_bytes() == b""


@pytest.mark.parametrize("code", ["ENOLCK", "ENOTSUP"])
def test_without_locks_it_goes_on(tmp_path, monkeypatch, code):
    import errno

    def flock(descriptor, how):
        raise OSError(getattr(errno, code), "no locks")

    monkeypatch.setattr(fcntl, "flock", flock)
    with reserved(tmp_path), reserved(tmp_path):
        pass


def test_set_aside_loses_nothing(tmp_path):
    for _ in range(2):
        (tmp_path / "a").write_text("a")
        set_aside(tmp_path, ["a", "b"])
    assert (tmp_path / "earlier-1" / "a").exists()
    assert (tmp_path / "earlier-2" / "a").exists()
    assert set_aside(tmp_path, ["a", "b"]) is None


def test_standard_output_that_cannot_be_written(tmp_path):
    config = write_config(tmp_path, tmp_path)
    show = [*command(config)[:3], "config", "digits-cnn"]
    for words, code in ((command(config), 1), (show, 2)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == code
        assert "error: standard output cannot be written: No space left on device\n" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


def test_a_reader_that_has_seen_enough(tmp_path):
    config = write_config(tmp_path, tmp_path)
    show = [*command(config)[:3], "config", "digits-cnn"]
    for words in (command(config), show):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "w") as closed:
            done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, timeout=60)
        assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_samples_that_are_not_finite(tmp_path, bad):
    import h5py

    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1", "schedule.warmup_epochs=0")
    shutil.copy(tmp_path / "digits.h5", tmp_path / "mine.h5")
    with h5py.File(tmp_path / "mine.h5", "a") as file:
        images = file["train/input"][...].astype(float)
        images[700, 3, 3] = bad
        del file["train/input"]
        file["train/input"] = images
    done = train(config, f"data.file='{tmp_path / 'mine.h5'}'", "run.dtype='float32'", ok=False)
    assert (
        "samples of this batch hold NaN, infinite values, or values beyond float32" in done.stderr
    )
    assert "optimizer.lr" not in done.stderr


def test_more_outputs_than_classes_are_allowed(tmp_path):
    config = write_config(tmp_path, tmp_path)
    net = "model.layers=[{type='flatten'},{type='dense',units=12}]"
    train(config, net, "train.epochs=1", "schedule.warmup_epochs=0")


def test_a_live_line_keeps_to_the_width_it_is_told(tmp_path):
    config = write_config(tmp_path, tmp_path)
    sets = ["train.epochs=1", "schedule.warmup_epochs=0", "run.log_every=1"]
    words = command(config, *sets, options=["--live", "--columns", "30"])
    done = subprocess.run(words, capture_output=True, timeout=60)
    live = [part for part in done.stdout.split(b"\r") if b" step " in part and b"\n" not in part]
    assert live
    assert {len(part) for part in live} == {29}
