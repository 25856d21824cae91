"""Run ``hpcdl`` as a user does, and read what it leaves."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hpcdl.checkpoint import read

NET = """
[run]
dir = {run!r}
data_dir = {data!r}
dtype = "float64"
[train]
epochs = 3
batch = 64
[optimizer]
lr = 0.05
[schedule]
name = "cosine"
warmup_epochs = 0.5
[checkpoint]
keep = 100
[model]
layers = [
  {{ type = "conv", channels = 4, bias = false }}, {{ type = "batchnorm" }}, {{ type = "relu" }},
  {{ type = "maxpool" }},
  {{ type = "residual", body = [
    {{ type = "conv", channels = 4, bias = false }}, {{ type = "batchnorm" }}] }},
  {{ type = "relu" }}, {{ type = "flatten" }}, {{ type = "dense", units = 10 }},
]
"""


def write_config(directory: Path, data: Path) -> Path:
    """Write a small network to ``directory/net.toml``; its run is ``directory/run``."""
    path = directory / "net.toml"
    path.write_text(NET.format(run=str(directory / "run"), data=str(data)))
    return path


def command(config, *sets, ranks=0, options=()):
    words = [sys.executable, "-m", "hpcdl", "train", str(config)]
    for s in sets:
        words += ["--set", s]
    return [*words, *(["-n", str(ranks)] if ranks else []), *options]


def train(config, *sets, ranks=0, options=(), ok=True, timeout=120, **more):
    """Run ``hpcdl train`` to its end."""
    done = subprocess.run(
        command(config, *sets, ranks=ranks, options=options),
        capture_output=True,
        text=True,
        timeout=timeout,
        **more,
    )
    if ok:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def metrics(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple]:
    """Everything in the metrics that is not a timing."""
    keys = ("epoch", "step", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
    return [tuple(line[k] for k in keys) for line in metrics(run)]


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").glob("*.h5"))


def final(run: Path) -> dict:
    """The arrays of the last checkpoint."""
    return read(checkpoints(run)[-1])[0]


def start_from(source: Path, number: int, run: Path) -> None:
    """Make a run folder as a kill just after a checkpoint would have left it."""
    kept = checkpoints(source)[number]
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(kept, run / "checkpoints")
    shutil.copy(source / "metrics.jsonl", run)


def ranks_of(marker: str) -> dict[int, int]:
    """Return rank -> pid of the running ranks whose command line has the marker."""
    found = {}
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            words = (proc / "cmdline").read_bytes().decode().split("\0")
            env = dict(
                e.split("=", 1)
                for e in (proc / "environ").read_bytes().decode().split("\0")
                if "=" in e
            )
        except (OSError, UnicodeDecodeError):
            continue
        is_rank = "hpcdl" in words and "mpiexec" not in words[0] and "-n" not in words
        if is_rank and any(marker in w for w in words) and "PMI_RANK" in env:
            found[int(env["PMI_RANK"])] = int(proc.name)
    return found


def wait_for(condition, seconds=60.0):
    """Wait until the condition holds and return what it gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"did not happen in {seconds} s")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
