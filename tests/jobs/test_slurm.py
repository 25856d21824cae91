"""Rendered scripts, run by a real Slurm."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.render import Job, Site, load_site, render
from jobs.train_digits import digits_command
from tests.slurm_cluster import Cluster

# Each rank says what it does and what it is sent, and then behaves as its arguments tell.
PROGRAM = """\
import os, signal, sys, time
from pathlib import Path
from mpi4py import MPI

comm = MPI.COMM_WORLD
what = sys.argv[1]
if what == "sum":
    total = comm.allreduce(comm.rank + 1)
    print(f"rank {comm.rank} of {comm.size} on {os.environ['SLURMD_NODENAME']}, sum {total}, "
          f"threads {os.environ['OMP_NUM_THREADS']}", flush=True)
elif what == "one fails":
    comm.barrier()
    if comm.rank == 2:
        os._exit(7)
    comm.barrier()
elif what == "all fail":
    comm.barrier()
    sys.exit(7)
elif what == "signal":
    got = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda n, frame: got.append(signal.Signals(n).name))
    comm.barrier()
    if Path("stopped").exists():
        print(f"rank {comm.rank} goes on", flush=True)
        sys.exit(0)
    comm.barrier()
    Path(f"up-{comm.rank}").touch()
    end = time.time() + 20
    while not got and time.time() < end:
        time.sleep(0.01)
    print(f"rank {comm.rank} got {got[0]}", flush=True)
    if comm.rank == 0:
        Path("stopped").touch()
    comm.barrier()
    sys.exit(3)
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of 2 nodes x 2 ranks; its command wants one more argument."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = (sys.executable, str(tmp_path / "program.py"))
    return Job("test", command, nodes=2, ranks_per_node=2, minutes=2, output="log")


@pytest.fixture
def site(launcher: str) -> Site:
    return Site("test", launcher=launcher)


def does(job: Job, what: str) -> Job:
    return replace(job, command=(*job.command, what))


def until(exists: list[Path]) -> None:
    end = time.monotonic() + 20
    while not all(path.exists() for path in exists):
        assert time.monotonic() < end, f"still missing: {[p for p in exists if not p.exists()]}"
        time.sleep(0.02)


def up(folder: Path) -> list[Path]:
    return [folder / f"up-{rank}" for rank in range(4)]


def come_back(cluster: Cluster, number: str, *command: str) -> None:
    """Run a command that sends a job back into the queue, and let it start again soon."""
    cluster.run(*command)
    cluster.wait(number, "PENDING")
    # Slurm holds a job that comes back for two minutes; here two seconds are enough for the nodes
    # to know its second start, counted in whole seconds, from the first.
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now+2")


@pytest.mark.parametrize(
    ("job", "site"),
    [
        (Job("a", ("true",)), load_site("generic")),
        (
            Job("a.b-1", ("echo", 'it\'s "quoted" $HOME'), 2, 2, 2, requeues=2, output="a b %x-%j"),
            Site("all", "pmix_v4", ("--cpu-bind=none",), ("--exclusive", "--comment=two words")),
        ),
        (
            Job("m", ("true",), 2, 4, directives=("--partition=test",), signal_s=0),
            Site("m", "mpiexec", setup=("export A=1", "umask 077")),
        ),
    ],
)
def test_sbatch_accepts_what_is_rendered(cluster: Cluster, job: Job, site: Site) -> None:
    cluster.run("sbatch", "--test-only", stdin=render(job, site))


def test_sbatch_reads_back_what_the_job_says(cluster: Cluster, tmp_path: Path) -> None:
    job = Job(
        "read.back",
        ("true",),
        nodes=2,
        ranks_per_node=2,
        cpus_per_rank=2,
        minutes=7,
        requeues=1,
        output="the log %x",
        directives=("--hold", "--comment=two words"),
    )
    number = cluster.submit(render(job, load_site("generic")), tmp_path)
    shown = cluster.job(number)
    text = cluster.run("scontrol", "--oneliner", "show", "job", number)
    cluster.run("scancel", number)
    assert shown["JobName"] == "read.back"
    assert shown["NumNodes"] == "2-2"
    assert shown["NumCPUs"] == "8"
    assert shown["CPUs/Task"] == "2"
    assert shown["NtasksPerN:B:S:C"] == "2:0:*:*"
    assert shown["TimeLimit"] == "00:07:00"
    assert shown["Requeue"] == "1"
    assert f"StdOut={tmp_path}/the log read.back " in text
    assert "Comment=two words " in text


def test_sbatch_refuses_more_nodes_than_there_are(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="node configuration is not available"):
        cluster.run(
            "sbatch", "--test-only", stdin=render(Job("a", ("true",), 3), load_site("generic"))
        )


def test_four_ranks_on_two_nodes_see_each_other(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path
) -> None:
    sized = replace(does(job, "sum"), cpus_per_rank=2)
    ended = cluster.wait(cluster.submit(render(sized, site), tmp_path))
    log = (tmp_path / "log").read_text()
    assert ended["JobState"] == "COMPLETED", log
    lines = re.findall(r"rank \d of \d on n\d, sum \d+, threads \d", log)
    assert sorted(lines) == [
        f"rank {rank} of 4 on n{1 + rank // 2}, sum 10, threads 2" for rank in range(4)
    ]
    assert "restarts so far: 0" in log
    assert f"site test, nodes {ended['NodeList']}: 2 x 2 ranks x 2 CPUs" in log
    assert "exit code 0" in log


def test_exit_code_of_all_ranks_is_that_of_the_job(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path
) -> None:
    ended = cluster.wait(cluster.submit(render(does(job, "all fail"), site), tmp_path))
    assert (ended["JobState"], ended["ExitCode"]) == ("FAILED", "7:0")


def test_one_failing_rank_ends_the_job_within_seconds(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path
) -> None:
    start = time.monotonic()
    ended = cluster.wait(cluster.submit(render(does(job, "one fails"), site), tmp_path))
    log = (tmp_path / "log").read_text()
    assert time.monotonic() - start < 15
    assert ended["JobState"] == "FAILED", log
    assert "task 2: Exited with exit code 7" in log
    # srun reports the largest code of all ranks, and those that it ended itself have 128 + signal.
    code = int(re.findall(r"^exit code (\d+)", log, re.MULTILINE)[0])
    assert code >= 7
    assert ended["ExitCode"] == f"{code}:0"


def test_warned_before_the_limit_the_job_stops_and_continues_from_the_queue(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path
) -> None:
    script = render(replace(does(job, "signal"), requeues=1), site)
    number = cluster.submit(script, tmp_path)
    until(up(tmp_path))
    # This is what --signal=B:USR1 does, only sooner.
    come_back(cluster, number, "scancel", "--batch", "--signal=USR1", number)
    ended = cluster.wait(number)
    log = (tmp_path / "log").read_text()
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"]) == ("COMPLETED", "0:0", "1")
    first, second = log.split("back into the queue")
    assert sorted(re.findall(r"rank \d got SIG\w+", first)) == [
        f"rank {rank} got SIGUSR1" for rank in range(4)
    ]
    assert "restarts so far: 0" in first
    assert "exit code 3" in first
    assert "restarts so far: 1" in second
    assert sorted(re.findall(r"rank \d goes on", second)) == [f"rank {r} goes on" for r in range(4)]
    assert "exit code 0" in second


def test_without_requeues_the_warned_job_has_the_exit_code_of_its_program(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path
) -> None:
    number = cluster.submit(render(does(job, "signal"), site), tmp_path)
    until(up(tmp_path))
    cluster.run("scancel", "--batch", "--signal=USR1", number)
    ended = cluster.wait(number)
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"]) == ("FAILED", "3:0", "0")


@pytest.mark.parametrize(
    ("options", "state"), [((), "CANCELLED"), (("--batch", "--signal=TERM"), "FAILED")]
)
def test_termination_reaches_the_ranks_and_leaves_them_time_to_end(
    cluster: Cluster, job: Job, site: Site, tmp_path: Path, options: tuple[str, ...], state: str
) -> None:
    number = cluster.submit(render(does(job, "signal"), site), tmp_path)
    until(up(tmp_path))
    cluster.run("scancel", *options, number)
    ended = cluster.wait(number, "CANCELLED", "FAILED")
    until([tmp_path / "stopped"])
    end = time.monotonic() + 10
    while "exit code" not in (log := (tmp_path / "log").read_text()):
        assert time.monotonic() < end, log
        time.sleep(0.05)
    assert ended["JobState"] == state
    assert sorted(re.findall(r"rank \d got SIG\w+", log)) == [
        f"rank {rank} got SIGTERM" for rank in range(4)
    ]
    assert re.search(r"^exit code 3,", log, re.MULTILINE)


def test_digits_cnn_is_trained_and_continues_after_it_lost_its_nodes(
    cluster: Cluster, site: Site, tmp_path: Path
) -> None:
    command = digits_command("run", ["train.epochs=4", "run.progress=plain"])
    job = Job("digits-cnn", command, nodes=2, ranks_per_node=2, minutes=5, requeues=1, output="log")
    number = cluster.submit(render(job, site), tmp_path)
    run = tmp_path / "run"
    while not list(run.glob("**/step-*.h5")):
        assert cluster.job(number)["JobState"] in ("PENDING", "RUNNING"), (
            tmp_path / "log"
        ).read_text()
        time.sleep(0.05)
    come_back(cluster, number, "scontrol", "requeue", number)
    ended = cluster.wait(number, timeout_s=90)
    log = (tmp_path / "log").read_text()
    assert (ended["JobState"], ended["ExitCode"], ended["Restarts"]) == ("COMPLETED", "0:0", "1")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert rows[3]["train_loss"] < rows[0]["train_loss"]
    assert rows[3]["test_accuracy"] > 0.9
    # The second start did not do the first epoch again.
    assert "epoch 1/4" in log.split("restarts so far: 1")[0]
    assert "epoch 1/4" not in log.split("restarts so far: 1")[1]


def test_command_line_submits(cluster: Cluster, launcher: str, tmp_path: Path) -> None:
    site = tmp_path / "here.toml"
    site.write_text(f'launcher = "{launcher}"\n')
    words = [sys.executable, "-m", "jobs", "submit", "--site", str(site), "--ranks-per-node", "1"]
    done = subprocess.run(
        [*words, "--output", "log", "--", "echo", "a  b", "$HOME"],
        cwd=tmp_path,
        env=cluster.env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    number = done.stdout.removeprefix("submitted job ").strip()
    assert cluster.wait(number)["JobState"] == "COMPLETED"
    assert "\na  b $HOME\n" in (tmp_path / "log").read_text()
