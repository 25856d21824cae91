"""The command line."""

import subprocess
import sys

import pytest

from tests.train.tools import metrics, train, write_config


def hpcdl(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "hpcdl", *words], capture_output=True, text=True, timeout=60, **more
    )


@pytest.mark.parametrize("words", [[], ["train"], ["config"], ["data"], ["report"]])
def test_help_has_examples(words):
    done = hpcdl(*words, "--help")
    assert done.returncode == 0
    assert "example" in done.stdout


def test_no_command_gives_help():
    done = hpcdl()
    assert (done.returncode, done.stderr) == (0, "")
    assert "hpcdl train digits-cnn -n 4" in done.stdout


def test_the_example_is_a_configuration(tmp_path):
    done = hpcdl("config", "--example")
    path = tmp_path / "my.toml"
    path.write_text(done.stdout)
    assert done.stdout.count("#") > 30
    shown = hpcdl("config", str(path))
    assert shown.returncode == 0, shown.stderr
    assert hpcdl("config", "digits-cnn", "--set", "optimizer.lr=0.25").stdout.count("0.25") == 1


def test_errors_are_one_line_and_2(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("[train]\nepochs = 3\nbatch = -1\n")
    for words, text in [
        (["train", str(path)], f"{path}:3"),
        (["train", str(tmp_path / "none.toml")], "none.toml"),
        (["train", "no-such-name"], "digits-cnn"),
        (["train", "digits-cnn", "-n", "0"], "at least 1"),
        (["train", "digits-cnn", "--set", "train.epochs"], "train.epochs"),
        (["config"], "--example"),
        (["report", str(tmp_path / "nothing")], "nothing"),
        (["data", "digits", "/proc/none/digits.h5"], "/proc/none"),
    ]:
        done = hpcdl(*words)
        assert done.returncode == 2, (words, done.stdout, done.stderr)
        assert text in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


def test_the_shipped_configuration_runs_in_any_folder(tmp_path):
    done = train(
        "digits-cnn",
        "run.dir=OUT",
        "train.epochs=1",
        "schedule.warmup_epochs=0",
        ranks=2,
        cwd=tmp_path,
    )
    assert "epoch 1 done" in done.stdout
    assert "\r" not in done.stdout
    (line,) = metrics(tmp_path / "OUT")
    keys = "epoch step time_s train_loss test_loss test_accuracy samples_per_s comm_fraction"
    assert {*keys.split(), "wire_bytes_per_step"} <= line.keys()
    assert 0 < line["comm_fraction"] < 1
    drawn = hpcdl("report", str(tmp_path / "OUT"))
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "OUT" / "report.png").stat().st_size > 10_000
    assert "<img" in (tmp_path / "OUT" / "report.html").read_text()


def test_data_digits(tmp_path):
    import h5py

    done = hpcdl("data", "digits", str(tmp_path / "d.h5"))
    assert done.returncode == 0
    with h5py.File(tmp_path / "d.h5") as file:
        assert file["train/input"].shape == (1437, 8, 8, 1)
        assert file["train/input"].chunks is None


def test_imports_are_light():
    code = "import time; t = time.perf_counter(); import hpcdl; print(time.perf_counter() - t)"
    best = min(
        float(subprocess.check_output([sys.executable, "-c", code], text=True)) for _ in range(3)
    )
    assert best < 0.5
    code = "import sys, hpcdl, collectives; print('mpi4py' in sys.modules, 'h5py' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"


def test_only_the_ranks_start_mpi(tmp_path):
    code = (
        "import sys, hpcdl.cli; sys.argv = ['hpcdl', 'config', 'digits-cnn'];"
        "hpcdl.cli.run_command(sys.argv[1:]); print('mpi4py.MPI' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("False\n")


def test_data_does_not_replace_a_file_of_somebody_else(tmp_path):
    mine = tmp_path / "mine.h5"
    mine.write_text("mine")
    done = hpcdl("data", "digits", str(mine))
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert mine.read_text() == "mine"
    for words in (["--force"], []):  # replaced; then it is ours, and the same bytes again
        assert hpcdl("data", "digits", str(mine), *words).returncode == 0


def test_resume_tells_which_settings_changed(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=1")
    done = train(config, "optimizer.lr=0.3", "train.epochs=2", options=["--resume"])
    assert "other settings: train.epochs 1 -> 2, optimizer.lr 0.05 -> 0.3" in done.stdout
