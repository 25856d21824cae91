"""The command line of job scripts: options that every job has, and what is done with its script."""

import argparse
from pathlib import Path
from typing import NoReturn

from jobs.render import Job, load_site, render
from jobs.site import shipped_sites
from jobs.submit import SubmitError, submit


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where a job runs and how large it is."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    sites = ", ".join(shipped_sites())
    parser.add_argument(
        "--site",
        default="generic",
        metavar="SITE",
        help=f"{sites}, or a file that ends in .toml (default: generic)",
    )
    parser.add_argument("--name", metavar="NAME", help="name of the job (default: its program's)")
    for option, default, what in (
        ("--nodes", 1, "number of nodes"),
        ("--ranks-per-node", 4, "MPI ranks on each node"),
        ("--cpus-per-rank", 1, "CPUs, and OpenMP threads, of each rank"),
        ("--minutes", 10, "time limit in minutes"),
        ("--signal", 60, "seconds before the limit at which the ranks get SIGUSR1; 0: never"),
    ):
        parser.add_argument(
            option, type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    parser.add_argument(
        "--requeues",
        type=int,
        metavar="N",
        help="how often the job may go back into the queue at its time limit or when a node fails "
        "(default: 3 for digits-cnn, else 0)",
    )
    parser.add_argument(
        "--output",
        default="%x-%j.out",
        metavar="LOG",
        help="log of the job (default: NAME-JOB.out)",
    )
    parser.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="a further option of sbatch, as --sbatch=--account=physics; may be repeated",
    )


def job_from(
    arguments: argparse.Namespace, command: tuple[str, ...], *, name: str, requeues: int
) -> Job:
    """The job that the options describe.

    Args:
        arguments: what a parser with `add_options` returned.
        command: the program of every rank and its arguments.
        name: name of the job where the options give none.
        requeues: as for `Job`, where the options give none.

    Raises:
        ValueError: a value is not allowed.
    """
    return Job(
        name=arguments.name or name,
        command=command,
        nodes=arguments.nodes,
        ranks_per_node=arguments.ranks_per_node,
        cpus_per_rank=arguments.cpus_per_rank,
        minutes=arguments.minutes,
        signal_s=arguments.signal,
        requeues=requeues if arguments.requeues is None else arguments.requeues,
        output=arguments.output,
        directives=tuple(arguments.sbatch),
    )


def deliver(job: Job, site: str, *, send: bool, path: str | None = None) -> None:
    """Render a job, then submit it, write it to a file or print it.

    Args:
        job: the job.
        site: name or file of the site.
        send: submit the script and print the number of the job.
        path: file to write if it is not submitted; None prints the script.

    Raises:
        ValueError: the site is not known, or too small for the job.
        SubmitError: Slurm refused the script.
        OSError: the file cannot be written.
    """
    script = render(job, load_site(site))
    if send:
        print(f"submitted job {submit(script)}")
    elif path is not None:
        Path(path).write_text(script, encoding="utf-8")
    else:
        print(script, end="")


def refuse(parser: argparse.ArgumentParser, error: Exception) -> NoReturn:
    """End the program with a message: exit code 2 for wrong arguments, 1 for a failure outside."""
    code = 1 if isinstance(error, (SubmitError, OSError)) else 2
    parser.exit(code, f"{parser.prog}: error: {error}\n")
