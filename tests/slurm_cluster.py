"""A private, throw-away Slurm cluster on this machine: the real programs, for tests.

One munged, one slurmctld and one slurmd for each virtual node run as children of this process, with
every file of theirs in one temporary folder. There are no cgroups, no accounting and no system
services, so it works in a container, as root or as anyone else.
"""

import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge.sock
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
TmpFS={root}/tmp/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=0,batch_sched_delay=0,bf_interval=2
KillWait=2
MinJobAge=3600
JobRequeue=1
PartitionName=test Nodes=n[1-{nodes}] Default=YES MaxTime=1:00:00 DefaultTime=5 State=UP
"""
# Each node has its own TmpFS: two that share one meet in the folder that mpi/pmix makes there.
# config_overrides: a node may have more CPUs than this machine.
_NODE = (
    "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Sockets=1 "
    "CoresPerSocket={cpus} ThreadsPerCore=1 State=UNKNOWN\n"
)


def why_not() -> str:
    """Why no cluster can be started here; empty if one can."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_PATH) is None]
    if not missing:
        return ""
    return f"no Slurm here: {', '.join(missing)} missing (Debian: slurm-wlm munge libpmix-dev)"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        root: folder of all its files.
        env: environment in which Slurm's commands talk to it.
    """

    root: Path
    env: dict[str, str]

    def run(self, *command: str, stdin: str = "", cwd: Path | None = None) -> str:
        """Standard output of a command that must succeed within 60 s."""
        done = subprocess.run(
            command,
            input=stdin,
            cwd=cwd,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(self, script: str, cwd: Path) -> str:
        """Number of the job that ``sbatch`` makes of a script, with ``cwd`` as its folder."""
        return self.run("sbatch", "--parsable", stdin=script, cwd=cwd).strip()

    def job(self, number: str) -> dict[str, str]:
        """What ``scontrol show job`` says, as ``{"JobState": "RUNNING", ...}``."""
        words = self.run("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, number: str, *states: str, timeout_s: float = 30.0) -> dict[str, str]:
        """Wait until a job is in one of ``states``; without any, until it has ended."""
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        end = time.monotonic() + timeout_s
        while (job := self.job(number))["JobState"] not in wanted:
            if time.monotonic() > end:
                raise TimeoutError(f"job {number} is {job['JobState']} after {timeout_s} s")
            time.sleep(0.05)
        return job


@contextlib.contextmanager
def slurm_cluster(nodes: int = 2, cpus: int = 4) -> Iterator[Cluster]:
    """Start a cluster of ``nodes`` virtual nodes with ``cpus`` CPUs each; stop it at the end.

    Whatever happens inside, no process and no file of the cluster is left.

    Raises:
        RuntimeError: it did not start (with the ends of its logs), or something outlived it.
    """
    # Not where TMPDIR points: the path of a unix socket has at most 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    daemons: list[subprocess.Popen[bytes]] = []
    cluster = Cluster(root, _environment(root))
    try:
        _configure(root, nodes, cpus)
        daemons.append(_spawn(cluster, "munged", "--foreground", "--force", *_munge_files(root)))
        _await(root, daemons, (root / "munge.sock").exists)
        daemons.append(_spawn(cluster, "slurmctld", "-D"))
        for number in range(1, nodes + 1):
            daemons.append(_spawn(cluster, "slurmd", "-D", "-N", f"n{number}"))
        _await(root, daemons, lambda: _idle_nodes(cluster) == nodes)
        yield cluster
    finally:
        _stop(cluster, daemons)
        shutil.rmtree(root)


def _environment(root: Path) -> dict[str, str]:
    # In a job of another cluster, its variables would reach the daemons and from there the jobs.
    foreign = ("SLURM", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "PATH": _PATH, "SLURM_CONF": f"{root}/slurm.conf"}


def _configure(root: Path, nodes: int, cpus: int) -> None:
    host = socket.gethostname().split(".")[0]
    ports = _free_ports(nodes + 1)
    conf = _CONF.format(host=host, port=ports[0], user=getpass.getuser(), root=root, nodes=nodes)
    for number, port in enumerate(ports[1:], start=1):
        conf += _NODE.format(number=number, host=host, port=port, cpus=cpus)
        (root / "spool" / f"n{number}").mkdir(parents=True)
        (root / "tmp" / f"n{number}").mkdir(parents=True)
    (root / "state").mkdir()
    (root / "slurm.conf").write_text(conf)
    key = root / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(64))
    root.chmod(0o755)


def _free_ports(count: int) -> list[int]:
    # Below the range from which the system itself takes ports for outgoing connections.
    ports: list[int] = []
    for port in random.sample(range(20000, 30000), 1000):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            ports.append(port)
        if len(ports) == count:
            break
    return ports


def _munge_files(root: Path) -> list[str]:
    return [
        f"--socket={root}/munge.sock",
        f"--key-file={root}/munge.key",
        f"--seed-file={root}/munge.seed",
        f"--pid-file={root}/munged.pid",
        f"--log-file={root}/munged.log",
    ]


def _spawn(cluster: Cluster, *command: str) -> subprocess.Popen[bytes]:
    # The kernel ends the daemon with this process, even where this one is killed.
    guard = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with (cluster.root / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            [*guard, *command],
            env=cluster.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await(root: Path, daemons: list[subprocess.Popen[bytes]], ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not ready():
        ended = [f"{d.args!r}" for d in daemons if d.poll() is not None]
        if ended or time.monotonic() > end:
            logs = "".join(f"\n{f.name}:\n{f.read_text()[-1500:]}" for f in root.glob("*.log"))
            why = f"ended: {ended}" if ended else "not ready after 30 s"
            raise RuntimeError(f"the Slurm cluster did not start ({why}){logs}")
        time.sleep(0.05)


def _idle_nodes(cluster: Cluster) -> int:
    try:
        states = cluster.run("sinfo", "--noheader", "--Node", "--format=%T")
    except RuntimeError:
        return 0
    return states.split().count("idle")


def _stop(cluster: Cluster, daemons: list[subprocess.Popen[bytes]]) -> None:
    with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
        cluster.run("scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}")
    # Nothing is to be kept, so nothing is asked to end in order; a slurmd would wait for its jobs.
    # Job steps are no children of this process: they are told by the folder that they use.
    end = time.monotonic() + 10
    while left := processes(cluster.root):
        if time.monotonic() > end:
            raise RuntimeError(f"processes of the Slurm cluster outlive it: {left}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for daemon in daemons:
        daemon.wait(timeout=10)


def processes(root: Path) -> list[int]:
    """Processes, but for this one, with ``root`` in their environment or a file of it open."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                opened = [os.readlink(link) for link in (entry / "fd").iterdir()]
                environment = os.fsdecode((entry / "environ").read_bytes())
                if f"{root}/" in environment or any(f.startswith(f"{root}/") for f in opened):
                    found.append(int(entry.name))
    return found
