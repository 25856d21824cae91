"""``python -m collectives bench``: the algorithms beside the MPI library's own calls."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collectives.bench import options
from collectives.bench.facts import facts
from collectives.bench.limits import closing, dump
from collectives.bench.plot import check_plot, plot
from collectives.bench.row import json_text
from collectives.bench.settings import Settings
from collectives.commands import ranks
from collectives.commands.files import another_machine, another_mpi, check_writable, written
from collectives.launch import LaunchError, launcher_size

if TYPE_CHECKING:
    from mpi4py import MPI

add = options.add


def run(args: argparse.Namespace) -> int:
    """Start the ranks, or be one of them; 1 if a result was wrong."""
    work = options.suite_settings(args) if args.suite else options.all_settings(args)
    try:
        if args.started is None and launcher_size(os.environ) is None:
            ranks.check_executors(args.executor or ())
            _check_files(args)
            if args.suite:
                args.argv = [*args.argv, "--facts", dump(facts(args.ranks or 2))]
        comm = ranks.join("bench", args)
    except (ranks.StartError, LaunchError) as error:
        print(f"python -m collectives bench: error: {error}", file=sys.stderr)
        return 1
    return _measure(comm, args, work)


def _measure(comm: MPI.Comm, args: argparse.Namespace, work: Sequence[Settings]) -> int:
    from collectives.bench.run import library
    from collectives.bench.run import run as measure
    from collectives.bench.suite import run_suite

    def say(line: object) -> None:
        print(line, flush=True)

    with ranks.together(comm):
        root = comm.Get_rank() == 0
        if root:
            _check_files(args)
            for note in (another_machine(args.table), another_mpi(args.table, library())):
                if note:
                    say(f"# {note}")
        if args.suite:
            rows, checks = run_suite(comm, work[0], say)
            if root:
                say(closing(checks, args.facts))
        else:
            rows = measure(comm, work, say)
        if args.json is not None and root:
            with written("--json", args.json) as file:
                file.write(json_text(rows).encode())
        if args.plot is not None and root:
            with written("--plot", args.plot) as file:
                plot(file, rows, args.table, args.plot.suffix[1:])
    return 1 if any(row.wrong for row in rows) else 0


def _check_files(args: argparse.Namespace) -> None:
    """Find out before the run, not after it, that a result cannot be written.

    Raises:
        UsageError: it cannot.
    """
    for option in ("json", "plot"):
        path: Path | None = getattr(args, option)
        if path is not None:
            check_writable(f"--{option}", path)
    if args.plot is not None:
        check_plot(args.plot)
