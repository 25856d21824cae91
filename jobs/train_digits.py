"""The job that trains ``digits-cnn``, the network that comes with hpcdl.

``python -m jobs.train_digits`` prints its batch script; ``--submit`` hands it to Slurm.
"""

import argparse
import sys
from collections.abc import Sequence

from hpcdl.config import load
from jobs.options import add_options, deliver, job_from, refuse
from jobs.submit import SubmitError

#: Name of the shipped configuration, and of the job.
NAME = "digits-cnn"
#: The run continues from its checkpoints, so coming back from the queue loses little.
REQUEUES = 3

_EXAMPLES = """\
examples:
  python -m jobs.train_digits --nodes 2 --ranks-per-node 2          print the batch script
  python -m jobs.train_digits --nodes 2 --submit                    train on 2 nodes, 8 ranks
  python -m jobs.train_digits --site my-cluster.toml --run-dir runs/lr \\
      --set optimizer.lr=0.2 --set train.epochs=40 --submit         another site, other settings
"""


def digits_command(
    run_dir: str = "runs/digits-cnn",
    settings: Sequence[str] = (),
    python: str = sys.executable,
) -> tuple[str, ...]:
    """The command of each rank.

    It always says ``--resume``: in an empty run directory that starts anew, and a job that comes
    back from the queue continues.

    Args:
        run_dir: run directory; must be the same folder on all nodes.
        settings: values ``section.key=value`` that replace those of the configuration.
        python: the interpreter that has hpcdl.
    """
    command = [python, "-m", "hpcdl", "train", NAME, "--set", f"run.dir={run_dir}"]
    for setting in settings:
        command += ["--set", setting]
    return (*command, "--resume")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; see ``--help``."""
    parser = argparse.ArgumentParser(
        prog="python -m jobs.train_digits",
        description="Train digits-cnn as a batch job.",
        epilog=_EXAMPLES,
    )
    add_options(parser)
    parser.add_argument(
        "--run-dir", default="runs/digits-cnn", metavar="DIR", help="run directory (%(default)s)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace a value of the configuration; may be repeated",
    )
    parser.add_argument("-o", "--script", metavar="FILE", help="write the batch script there")
    parser.add_argument("--submit", action="store_true", help="submit it, instead of printing it")
    arguments = parser.parse_args(argv)
    try:
        # A setting that is wrong is refused now, not after hours in the queue.
        load(NAME, arguments.set)
        command = digits_command(arguments.run_dir, arguments.set)
        job = job_from(arguments, command, name=NAME, requeues=REQUEUES)
        deliver(job, arguments.site, send=arguments.submit, path=arguments.script)
    except (ValueError, SubmitError, OSError) as error:
        refuse(parser, error)


if __name__ == "__main__":
    main()
