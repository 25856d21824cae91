"""``python -m jobs`` and ``python -m jobs.train_digits``."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import __main__ as jobs_main
from jobs import train_digits
from jobs.render import Job, load_site, render

Main = Callable[[list[str]], None]
CLI = [(jobs_main.main, ["render"]), (train_digits.main, [])]


@pytest.mark.parametrize(("main", "words"), CLI)
def test_digits_job_is_printed(
    main: Main, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*words, "--nodes", "2", "--ranks-per-node", "2"])
    command = [sys.executable, "-m", "hpcdl", "train", "digits-cnn"]
    command += ["--set", "run.dir=runs/digits-cnn", "--resume"]
    job = Job("digits-cnn", tuple(command), nodes=2, ranks_per_node=2, requeues=3)
    assert capsys.readouterr().out == render(job, load_site("generic"))


def test_settings_of_the_configuration_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    train_digits.main(
        ["--run-dir", "my runs/a", "--set", "optimizer.lr=0.2", "--set", "run.seed=1"]
    )
    words = ["--set", "run.dir=my runs/a", "--set", "optimizer.lr=0.2", "--set", "run.seed=1"]
    assert f" {shlex.join(words)} --resume &" in capsys.readouterr().out


def test_wrong_setting_is_refused_before_the_queue(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        train_digits.main(["--set", "optimizer.lr=-1", "--submit"])
    assert stop.value.code == 2
    assert "optimizer.lr" in capsys.readouterr().err


def test_any_command_and_every_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "here.toml"
    site.write_text('launcher = "mpiexec"\n')
    words = ["render", "--site", str(site), "--name", "mine", "--nodes", "2"]
    words += ["--ranks-per-node", "3", "--cpus-per-rank", "4", "--minutes", "5", "--signal", "6"]
    words += [
        "--requeues",
        "7",
        "--output",
        "my log",
        "--sbatch=--account=x",
        "--sbatch=--exclusive",
    ]
    jobs_main.main(
        [*words, "-o", str(tmp_path / "job.sh"), "--", "/bin/echo", "--nodes", "--", "9"]
    )
    job = Job(
        "mine",
        ("/bin/echo", "--nodes", "--", "9"),
        nodes=2,
        ranks_per_node=3,
        cpus_per_rank=4,
        minutes=5,
        signal_s=6,
        requeues=7,
        output="my log",
        directives=("--account=x", "--exclusive"),
    )
    assert (tmp_path / "job.sh").read_text() == render(job, load_site(str(site)))
    assert capsys.readouterr().out == ""


def test_name_and_requeues_of_another_command(capsys: pytest.CaptureFixture[str]) -> None:
    jobs_main.main(["render", "--", "/opt/bin/prog"])
    script = capsys.readouterr().out
    assert "--job-name=prog\n" in script
    assert "--no-requeue\n" in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "0"], "nodes is 0, but must be a whole number from 1"),
        (["--site", "mars"], "site is 'mars', but must be one of generic"),
        (["--sbatch=--nodes=4"], "--nodes is set from the job"),
        (["--minutes", "1", "--signal", "60"], "signal_s is 60, but must be .* from 0 to 59"),
    ],
)
@pytest.mark.parametrize(("main", "first"), CLI)
def test_wrong_arguments_end_with_2(
    main: Main, first: list[str], words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*first, *words])
    output = capsys.readouterr()
    assert stop.value.code == 2
    assert output.out == ""
    assert re.search(message, output.err)


def test_submit_without_slurm_ends_with_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jobs.train_digits", "--submit"],
        env={"PATH": str(tmp_path)},
        cwd=Path(train_digits.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "error: sbatch was not found" in done.stderr


@pytest.mark.parametrize(("main", "words"), CLI)
def test_help_has_examples(
    main: Main, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    assert "examples:\n  python -m jobs" in capsys.readouterr().out
