"""``python -m collectives bench``: the algorithms beside the MPI library's own calls."""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
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
    ranks_up_to,
    seconds,
)
from collectives.op import OPS

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_RANKS = 4096
"""The most ranks that are started on one machine."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collective", help=", ".join(COLLECTIVES))
    parser.add_argument(
        "--ranks",
        type=ranks_up_to(MAX_RANKS),
        metavar="P",
        help=f"start P ranks on this machine (2; at most {MAX_RANKS}); under mpiexec or srun: the "
        "ranks that there are",
    )
    # How a process is told that it is one of P ranks, whatever its launcher sets or does not set.
    parser.add_argument("--started", type=ranks_up_to(MAX_RANKS), help=argparse.SUPPRESS)
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
