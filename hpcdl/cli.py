"""The command line: train, config, data, report."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TextIO, cast

from hpcdl import __version__
from hpcdl.check import check
from hpcdl.config import Config, example, load, names
from hpcdl.errors import UserError
from hpcdl.output import Output, OutputClosed

EXAMPLES = """\
examples:
  hpcdl train digits-cnn -n 4                   train on 4 ranks of this machine
  hpcdl train digits-cnn -n 4 --set run.dir=OUT --set optimizer.lr=0.2
  mpiexec -n 4 hpcdl train my.toml              the ranks that a launcher gives
  srun hpcdl train my.toml --resume             in a batch job; goes on where it ended
  hpcdl report runs/digits-cnn                  pictures of what happened
  hpcdl config --example > my.toml              a configuration to start from
"""


def run_command(argv: Sequence[str]) -> int:
    """Run one command; return the exit code: 0, 1 for a failure, 2 for a wrong command line."""
    output = cast("TextIO", Output(sys.stdout))
    try:
        with redirect_stdout(output):
            try:
                parser = _parser()
                if not argv:
                    parser.print_help()
                    return 0
                args = parser.parse_args(argv)
                return int(args.command(args))
            finally:
                output.flush()
    except OutputClosed:
        return 1
    except Exception as error:
        if not getattr(error, "plain", False):
            raise
        print(f"hpcdl: error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hpcdl",
        description="Train neural networks with nothing but MPI.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hpcdl {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, text: str, epilog: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    train = add("train", "train a network", EXAMPLES)
    train.add_argument(
        "config", metavar="CONFIG", help=f"a TOML file, or a name: {', '.join(names())}"
    )
    train.add_argument(
        "-n", "--ranks", type=int, metavar="RANKS", help="start this many ranks on this machine"
    )
    train.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a value of the configuration, as optimizer.lr=0.2; may be repeated",
    )
    train.add_argument(
        "--resume",
        action="store_true",
        help="go on from the newest sound checkpoint in run.dir; without one, start anew",
    )
    # What the process that starts the ranks tells them.
    train.add_argument("--expect-ranks", type=int, help=argparse.SUPPRESS)
    train.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    train.add_argument("--columns", type=int, default=0, help=argparse.SUPPRESS)
    train.set_defaults(command=_train)

    config = add(
        "config",
        "show a configuration, with all its values",
        "examples:\n  hpcdl config --example > my.toml\n  hpcdl config digits-cnn\n",
    )
    config.add_argument("config", nargs="?", metavar="CONFIG", help="a TOML file, or a name")
    config.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    config.add_argument(
        "--example", action="store_true", help="print a commented one to start from"
    )
    config.set_defaults(command=_config)

    data = add(
        "data",
        "write a data set as HDF5",
        "example:\n  hpcdl data digits digits.h5\n",
    )
    data.add_argument(
        "name",
        metavar="NAME",
        choices=["digits"],
        help="digits: scikit-learn's 8x8 digits, 10 classes",
    )
    data.add_argument("file", metavar="OUT.h5", help="the file to write")
    data.add_argument("--force", action="store_true", help="replace a file that is there")
    data.set_defaults(command=_data)

    report = add(
        "report",
        "draw loss, accuracy, throughput and communication of a run",
        "example:\n  hpcdl report runs/digits-cnn\n",
    )
    report.add_argument("run", metavar="RUN", help="the folder of the run (run.dir)")
    report.set_defaults(command=_report)
    return parser


def _train(args: argparse.Namespace) -> int:
    config = load(args.config, args.set)
    check(config)
    if args.ranks is not None:
        return _launch(args, config)

    from collectives.launch import check_launcher, launcher_size, start_mpi

    start_mpi()  # before anything imports mpi4py.MPI
    from mpi4py import MPI

    from collectives import abort_on_exception
    from hpcdl.run import run

    comm = MPI.COMM_WORLD
    # Some launchers give rank 0 a terminal of its own, also where a file is behind it.
    live = args.live or (launcher_size(os.environ) is None and sys.stdout.isatty())
    with abort_on_exception(comm):
        check_launcher(comm, args.expect_ranks)
        try:
            run(config, comm, resume=args.resume, live=live, columns=args.columns)
        except OutputClosed:
            if comm.Get_size() > 1:  # the other ranks must be told
                raise
            return 1
    return 0


def _launch(args: argparse.Namespace, config: Config) -> int:
    """Start the ranks: this process becomes mpiexec."""
    from collectives.launch import LaunchError, replace_by_mpiexec

    if args.ranks < 1:
        raise UserError(f"-n {args.ranks}: needs at least 1 rank")
    height, data = config.grid.height, config.grid.data
    if args.ranks % height or (data and data * height != args.ranks):
        wanted = f"{data} x {height} = {data * height}" if data else f"a multiple of {height}"
        raise UserError(f"-n {args.ranks}: [grid] data={data} height={height} needs {wanted} ranks")
    program = [sys.executable, "-m", "hpcdl", "train", args.config]
    for override in args.set:
        program += ["--set", override]
    program += ["--resume"] * args.resume
    if sys.stdout.isatty():
        # The ranks write into a pipe, and cannot ask it for its width.
        program += ["--live", "--columns", str(shutil.get_terminal_size().columns)]
    try:
        replace_by_mpiexec(args.ranks, [*program, "--expect-ranks", str(args.ranks)])
    except LaunchError as error:
        raise UserError(str(error)) from error


def _config(args: argparse.Namespace) -> int:
    from hpcdl.config import to_toml

    if args.example == bool(args.config):
        raise UserError("config: name a configuration, or ask for --example")
    print(example() if args.example else to_toml(load(args.config, args.set)), end="")
    return 0


def _data(args: argparse.Namespace) -> int:
    from hpcdl.data import DataError, is_digits, write_digits

    if os.path.exists(args.file) and not args.force and not is_digits(args.file):
        raise UserError(f"{args.file}: is there already; --force replaces it")
    try:
        write_digits(args.file)
    except DataError as error:
        raise UserError(str(error)) from error
    print(args.file)
    return 0


def _report(args: argparse.Namespace) -> int:
    from hpcdl.report import report

    for path in report(args.run):
        print(path)
    return 0
