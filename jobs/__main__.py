"""``python -m jobs``: batch scripts for any command that runs under MPI."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs import train_digits
from jobs.options import add_options, deliver, job_from, refuse
from jobs.submit import SubmitError

_EXAMPLES = """\
Without a command after "--" the job trains digits-cnn.

examples:
  python -m jobs render --site generic --nodes 2 --ranks-per-node 2 -o job.sh
  python -m jobs render --nodes 4 --minutes 120 -- python -m hpcdl train my.toml --resume
  python -m jobs submit --site my-cluster.toml --nodes 2 -- python my_program.py
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; see ``--help``."""
    words = list(sys.argv[1:] if argv is None else argv)
    # argparse would take the command's own options for ours.
    cut = words.index("--") if "--" in words else len(words)
    command = tuple(words[cut + 1 :])
    parser = argparse.ArgumentParser(
        prog="python -m jobs",
        description="Render or submit a batch script for Slurm.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="render|submit")
    for action, text in (
        ("render", "print the batch script, or write it to a file"),
        ("submit", "hand the batch script to sbatch"),
    ):
        sub = actions.add_parser(action, help=text, description=text, epilog=_EXAMPLES)
        sub.usage = f"python -m jobs {action} [options] [-- command ...]"
        add_options(sub)
        sub.set_defaults(script=None)
        if action == "render":
            sub.add_argument("-o", "--script", metavar="FILE", help="write the batch script there")
    arguments = parser.parse_args(words[:cut])
    try:
        if command:
            name = Path(command[0]).name
            job = job_from(arguments, command, name=name, requeues=0)
        else:
            job = job_from(
                arguments,
                train_digits.digits_command(),
                name=train_digits.NAME,
                requeues=train_digits.REQUEUES,
            )
        deliver(job, arguments.site, send=arguments.action == "submit", path=arguments.script)
    except (ValueError, SubmitError, OSError) as error:
        refuse(parser, error)


if __name__ == "__main__":
    main()
