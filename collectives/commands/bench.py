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
from collectives.bench.settings import Settings
from collectives.commands.arguments import UsageError

if TYPE_CHECKING:
    from mpi4py import MPI

add = options.add


def run(args: argparse.Namespace) -> int:
    """Start the ranks, or be one of them; 1 if a result was wrong."""
    settings = options.all_settings(args)
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
        _check_writable(args.json)
        ranks = args.ranks or 2
        try:
            replace_by_mpiexec(ranks, _rank_program(args.argv, ranks))
        except LaunchError as error:
            return _failed(str(error))
    try:
        check_library()
    except LaunchError as error:
        return _failed(str(error))
    MPI.Init_thread(MPI.THREAD_MULTIPLE)  # as mpi4py does by itself
    atexit.register(MPI.Finalize)
    expected = args.ranks if args.started is None else args.started
    return _measure(MPI.COMM_WORLD, settings, expected, args.json)


def _rank_program(argv: Sequence[str], ranks: int) -> list[str]:
    """Return the command of each rank: this one's own words, and that it has been started."""
    after = list(argv).index("bench") + 1
    started = ["--started", str(ranks)]
    return [sys.executable, "-m", "collectives", *argv[:after], *started, *argv[after:]]


def _failed(message: str) -> int:
    print(f"python -m collectives bench: error: {message}", file=sys.stderr)
    return 1


def _measure(
    comm: MPI.Comm, settings: Sequence[Settings], expected: int | None, json: Path | None
) -> int:
    from collectives.abort import abort_on_exception
    from collectives.bench.run import run as measure
    from collectives.bench.table import write_json
    from collectives.launch import check_launcher

    with abort_on_exception(comm):
        check_launcher(comm, expected)
        if comm.Get_rank() == 0:
            _check_writable(json)
        rows = measure(comm, settings, lambda line: print(line, flush=True))
        if json is not None and comm.Get_rank() == 0:
            write_json(json, rows)
    return 1 if any(row.wrong for row in rows) else 0


def _check_writable(path: Path | None) -> None:
    """Find out before the run, not after it, that the result cannot be written."""
    try:
        if path is not None:
            path.open("a").close()
    except OSError as error:
        raise UsageError(f"--json {path}: {error.strerror}") from error
