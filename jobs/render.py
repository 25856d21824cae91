"""A job and a site in, the text of a Slurm batch script out."""

import shlex
from dataclasses import dataclass
from importlib import resources
from string import Template

from jobs import check
from jobs.site import RESERVED, Site, load_site

__all__ = ["Job", "Site", "load_site", "render"]


class _ScriptTemplate(Template):
    """Placeholders are ``@{name}``: a shell script is full of dollar signs of its own."""

    delimiter = "@"


@dataclass(frozen=True)
class Job:
    """One batch job, whatever the cluster.

    Attributes:
        name: the job's name.
        command: the program of every rank and its arguments; quoted for the shell by `render`.
        nodes: number of nodes.
        ranks_per_node: MPI ranks on each node.
        cpus_per_rank: CPUs, and threads of OpenMP, of each rank.
        minutes: time limit, in minutes.
        signal_s: seconds before the time limit at which the ranks get SIGUSR1; 0 sends none.
        requeues: how often the job may go back into the queue by itself: when the program ends with
            an error after the signal of the time limit, or Slurm takes its nodes away.
        output: file of standard output and error; sbatch's patterns (``%x`` the name, ``%j`` the
            number of the job) are allowed.
        directives: further options of sbatch, as ``--account=physics``.

    Raises:
        ValueError: a value is not allowed; the message has its name, the value and what is allowed.
    """

    name: str
    command: tuple[str, ...]
    nodes: int = 1
    ranks_per_node: int = 1
    cpus_per_rank: int = 1
    minutes: int = 10
    signal_s: int = 60
    requeues: int = 0
    output: str = "%x-%j.out"
    directives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check.name("name", self.name)
        check.lines("command", self.command)
        if not self.command or not self.command[0]:
            raise ValueError(f"command is {self.command!r}, but must begin with a program")
        check.number("nodes", self.nodes, 1, 100_000)
        check.number("ranks_per_node", self.ranks_per_node, 1, 4096)
        check.number("cpus_per_rank", self.cpus_per_rank, 1, 4096)
        check.number("minutes", self.minutes, 1, 366 * 24 * 60)
        # 65535 is the most that sbatch takes.
        check.number("signal_s", self.signal_s, 0, min(65535, 60 * self.minutes - 1))
        check.number("requeues", self.requeues, 0, 1000)
        check.directive_value("output", self.output)
        check.directives("directives", self.directives, RESERVED)

    @property
    def ranks(self) -> int:
        """Number of MPI ranks on all nodes."""
        return self.nodes * self.ranks_per_node


def render(job: Job, site: Site) -> str:
    """The batch script of ``job`` on ``site``, ready for ``sbatch``.

    Raises:
        ValueError: the job is larger or longer than the site allows.
    """
    _fits(job, site)
    template = resources.files("jobs").joinpath("templates", "slurm.sh").read_text(encoding="utf-8")
    return _ScriptTemplate(template).substitute(
        directives="\n".join(f"#SBATCH {option}" for option in _options(job, site)),
        setup="".join(f"{line}\n" for line in site.setup),
        threads=job.cpus_per_rank,
        site=site.name,
        size=f"{job.nodes} x {job.ranks_per_node} ranks x {job.cpus_per_rank} CPUs",
        requeues=job.requeues,
        launch=_launch(job, site),
        forward=_forward(site),
    )


def _fits(job: Job, site: Site) -> None:
    cpus = job.ranks_per_node * job.cpus_per_rank
    if 0 < site.cpus_per_node < cpus:
        raise ValueError(
            f"ranks_per_node x cpus_per_rank is {job.ranks_per_node} x {job.cpus_per_rank} = "
            f"{cpus}, but must be at most {site.cpus_per_node} on site {site.name!r}"
        )
    for argument, value, most in (
        ("nodes", job.nodes, site.max_nodes),
        ("minutes", job.minutes, site.max_minutes),
    ):
        if 0 < most < value:
            raise ValueError(
                f"{argument} is {value}, but must be at most {most} on site {site.name!r}"
            )


def _options(job: Job, site: Site) -> list[str]:
    options = [
        f"--job-name={job.name}",
        f"--output={job.output}",
        "--open-mode=append",  # a job that comes back goes on in the same file
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={job.ranks_per_node}",
        f"--cpus-per-task={job.cpus_per_rank}",
        f"--time={job.minutes}",
        "--requeue" if job.requeues else "--no-requeue",
    ]
    if job.signal_s:
        options.append(f"--signal=B:USR1@{job.signal_s}")
    return [_quoted(option) for option in [*options, *site.directives, *job.directives]]


def _quoted(option: str) -> str:
    name, equals, value = option.partition("=")
    return f'{name}{equals}"{value}"' if " " in value else option


def _launch(job: Job, site: Site) -> str:
    if site.launcher == "mpiexec":
        launcher = ["mpiexec", "-n", str(job.ranks)]
    else:
        # cpus-per-task is not inherited from sbatch since Slurm 22.05.
        launcher = [
            "srun",
            f"--mpi={site.launcher}",
            f"--nodes={job.nodes}",
            f"--ntasks-per-node={job.ranks_per_node}",
            f"--cpus-per-task={job.cpus_per_rank}",
            "--kill-on-bad-exit=1",
        ]
    return f"{shlex.join([*launcher, *site.launcher_args])} \\\n    {shlex.join(job.command)}"


def _forward(site: Site) -> str:
    if site.launcher == "mpiexec":
        return 'kill -s "$1" "$child"'
    # srun passes SIGUSR1 on, but answers SIGTERM by killing the ranks at once.
    return 'scancel --signal="$1" "$SLURM_JOB_ID"'
