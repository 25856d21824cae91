"""``python -m collectives bench``: the algorithms beside the MPI library's own calls."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from collectives.bench.settings import DTYPES, LEAST, Settings
from collectives.collective import COLLECTIVES
from collectives.commands.arguments import (
    UsageError,
    byte_sizes,
    find_algorithms,
    names,
    positive,
    seconds,
)
from collectives.op import OPS

if TYPE_CHECKING:
    from mpi4py import MPI


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collective", help=", ".join(COLLECTIVES))
    parser.add_argument(
        "--ranks",
        type=positive,
        metavar="P",
        help="start P ranks on this machine (2); under mpiexec or srun: the ranks that there are",
    )
    parser.add_argument(
        "--sizes",
        type=byte_sizes,
        default=byte_sizes("8:64M"),
        metavar="BYTES",
        help="8,1K,64K or, doubling, 8:64M (the default)",
    )
    parser.add_argument("--algorithm", type=names, metavar="NAMES", help="only these")
    parser.add_argument("--dtype", default=DTYPES[0], help=", ".join(DTYPES))
    parser.add_argument("--op", default="SUM", help=", ".join(OPS))
    parser.add_argument(
        "--budget", type=seconds, default=1.0, metavar="TIME", help="for each length (1s)"
    )
    parser.add_argument(
        "--repeat", type=positive, default=1000, metavar="N", help="at most N runs of each (1000)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")


def run(args: argparse.Namespace) -> int:
    """Start the ranks, or be one of them; 1 if a result was wrong."""
    settings = _settings(args)
    import mpi4py

    # This process becomes a rank only if a launcher has started it.
    mpi4py.rc.initialize = False
    from mpi4py import MPI

    from collectives.launch import LaunchError, launcher_size, replace_by_mpiexec

    if launcher_size(os.environ) is None:
        _check_writable(args.json)
        ranks = args.ranks or 2
        program = [sys.executable, "-m", "collectives", *args.argv, "--ranks", str(ranks)]
        try:
            replace_by_mpiexec(ranks, program)
        except LaunchError as error:
            print(f"python -m collectives bench: error: {error}", file=sys.stderr)
            return 1
    MPI.Init_thread(MPI.THREAD_MULTIPLE)  # as mpi4py does by itself
    atexit.register(MPI.Finalize)
    return _measure(MPI.COMM_WORLD, settings, args.ranks, args.json)


def _measure(comm: MPI.Comm, settings: Settings, expected: int | None, json: Path | None) -> int:
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


def _settings(args: argparse.Namespace) -> Settings:
    for option, known in (("dtype", DTYPES), ("op", tuple(OPS))):
        if getattr(args, option) not in known:
            raise UsageError(f"--{option} {getattr(args, option)}: there are {', '.join(known)}")
    algorithms = find_algorithms([args.collective], args.algorithm)
    return Settings(
        collective=COLLECTIVES[args.collective],
        algorithms=tuple(algorithms),
        sizes=tuple(args.sizes),
        dtype=args.dtype,
        op=OPS[args.op],
        budget=args.budget,
        least=min(LEAST, args.repeat),
        most=args.repeat,
    )
