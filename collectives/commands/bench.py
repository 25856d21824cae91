"""``python -m collectives bench``: the algorithms beside the MPI library's own calls."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collectives.bench import options
from collectives.bench.facts import facts
from collectives.bench.limits import closing, dump
from collectives.bench.plot import check_plot, plot
from collectives.bench.row import write_json
from collectives.bench.settings import Settings
from collectives.commands.arguments import UsageError

if TYPE_CHECKING:
    from mpi4py import MPI

add = options.add


def run(args: argparse.Namespace) -> int:
    """Start the ranks, or be one of them; 1 if a result was wrong."""
    work = options.suite_settings(args) if args.suite else options.all_settings(args)
    if args.started is not None and args.ranks not in (None, args.started):
        raise UsageError(f"--ranks {args.ranks}: {args.started} ranks were started")
    try:
        import mpi4py

        # This process becomes a rank only if a launcher has started it.
        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter: it finds no MPI library
        reason = " ".join(str(error).split())
        return _failed(f"needs mpi4py and an MPI ({reason}): pip install 'hpcdl[mpich]'")

    from collectives.launch import (
        LaunchError,
        check_library,
        launcher_size,
        replace_by_mpiexec,
    )

    if args.started is None and launcher_size(os.environ) is None:
        _check_files(args)
        ranks = args.ranks or 2
        try:
            told = ["--facts", dump(facts(ranks))] if args.suite else []
            replace_by_mpiexec(ranks, _rank_program(args.argv, ["--started", str(ranks), *told]))
        except LaunchError as error:
            return _failed(str(error))
    try:
        check_library()
    except LaunchError as error:
        return _failed(str(error))
    MPI.Init_thread(MPI.THREAD_MULTIPLE)  # as mpi4py does by itself
    atexit.register(MPI.Finalize)
    return _measure(MPI.COMM_WORLD, args, work)


def _rank_program(argv: Sequence[str], told: Sequence[str]) -> list[str]:
    """Return the command of each rank: this one's own words, and what it is told."""
    after = list(argv).index("bench") + 1
    return [sys.executable, "-m", "collectives", *argv[:after], *told, *argv[after:]]


def _failed(message: str) -> int:
    print(f"python -m collectives bench: error: {message}", file=sys.stderr)
    return 1


def _measure(comm: MPI.Comm, args: argparse.Namespace, work: Sequence[Settings]) -> int:
    from collectives.abort import abort_on_exception
    from collectives.bench.run import run as measure
    from collectives.bench.suite import run_suite
    from collectives.launch import check_launcher

    def say(line: object) -> None:
        print(line, flush=True)

    with abort_on_exception(comm):
        check_launcher(comm, args.ranks if args.started is None else args.started)
        root = comm.Get_rank() == 0
        if root:
            _check_files(args)
        if args.suite:
            rows, checks = run_suite(comm, work[0], say)
            if root:
                say(closing(checks, args.facts))
        else:
            rows = measure(comm, work, say)
        if args.json is not None and root:
            write_json(args.json, rows)
        if args.plot is not None and root:
            plot(args.plot, rows)
    return 1 if any(row.wrong for row in rows) else 0


def _check_files(args: argparse.Namespace) -> None:
    """Find out before the run, not after it, that a result cannot be written.

    Raises:
        UsageError: it cannot.
    """
    for option in ("json", "plot"):
        path: Path | None = getattr(args, option)
        try:
            if path is not None:
                path.open("a").close()
        except OSError as error:
            raise UsageError(f"--{option} {path}: {error.strerror}") from error
    if args.plot is not None:
        check_plot(args.plot)
