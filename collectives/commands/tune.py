"""``python -m collectives tune``: measure this machine, and write what is best to a table."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from collectives.candidates import SHARED
from collectives.commands import ranks
from collectives.commands.arguments import (
    UsageError,
    byte_sizes,
    file_name,
    names,
    seconds,
)
from collectives.commands.files import another_machine, check_writable
from collectives.commands.named import find_collectives
from collectives.launch import launcher_size
from collectives.machine import machine
from collectives.table import EXECUTORS, PLACEMENTS, Table
from collectives.table_reader import TableError

if TYPE_CHECKING:
    from mpi4py import MPI

    from collectives.tune import Progress, Wanted

DTYPES = ("float32", "float64", "int32", "int64")
"""The dtypes that every MPI library sums."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    ranks.add(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=file_name,
        metavar="FILE",
        help="the table; what it has already, for other cases on this machine, stays",
    )
    parser.add_argument(
        "--check",
        type=file_name,
        metavar="FILE",
        help="write nothing: measure how good the choices of that table are, between the lengths "
        "it was measured at",
    )
    parser.add_argument("--collective", type=names, metavar="NAMES", help="only these")
    parser.add_argument(
        "--bytes",
        "--sizes",
        dest="sizes",
        type=byte_sizes,
        metavar="BYTES",
        help="8,1K,64K or, doubling, 8:16M",
    )
    parser.add_argument(
        "--executor", type=names, metavar="NAMES", help=f"only these of {', '.join(EXECUTORS)}"
    )
    parser.add_argument(
        "--placement", type=names, metavar="NAMES", help=f"only these of {', '.join(PLACEMENTS)}"
    )
    parser.add_argument("--dtype", default=DTYPES[0], help=", ".join(DTYPES))
    parser.add_argument(
        "--budget",
        type=seconds,
        default=120.0,
        metavar="TIME",
        help="for all, about (120s); a short one takes fewer lengths and fewer ways",
    )
    # A rank writes to its launcher: whether that writes to a terminal, it cannot tell.
    parser.add_argument("--terminal", choices=("stderr", "both"), help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Start the ranks, or be one of them; 1 where a choice is too slow."""
    if (args.output is None) == (args.check is None):
        raise UsageError("say where to write the table with -o FILE, or which one to --check")
    for option, what in (("bytes", args.sizes), ("executor", args.executor)):
        if args.check is not None and what is not None:
            raise UsageError(f"--{option}: is not for --check, which takes those of the table")
    for option, known in (("executor", EXECUTORS), ("placement", PLACEMENTS)):
        for name in getattr(args, option) or ():
            if name not in known:
                raise UsageError(f"--{option} {name}: there are {', '.join(known)}")
    if {*(args.executor or ())} == {SHARED.executor}:
        raise UsageError("--executor shared: needs one that runs schedules, too: native or python")
    ranks.check_executors(args.executor or ())
    if args.ranks == 1 and args.check is None:
        raise UsageError("-n 1: needs 2 ranks, between which a message travels")
    if args.dtype not in DTYPES:
        raise UsageError(f"--dtype {args.dtype}: there are {', '.join(DTYPES)}")
    find_collectives(args.collective)
    if not args.budget:
        raise UsageError("--budget 0: needs some time, as in 60s")
    # Ranks that start together must not do this all at once: it writes to where the table goes.
    if args.started is None and launcher_size(os.environ) is None:
        _old(args)
    if args.started is None and sys.stderr.isatty():
        args.argv = [*args.argv, "--terminal", "both" if sys.stdout.isatty() else "stderr"]
    try:
        comm = ranks.join("tune", args)
    except ranks.StartError as error:
        print(f"python -m collectives tune: error: {error}", file=sys.stderr)
        return 1
    with ranks.together(comm):
        old = comm.bcast(_old(args) if comm.Get_rank() == 0 else None)
        return _measure(comm, args, old)


def _old(args: argparse.Namespace) -> Table | None:
    """Return the table to check or to add to; None where there is none yet.

    Raises:
        UsageError: it cannot be read or written, or is of another machine.
    """
    old = _table(args.check or args.output, needed=args.check is not None)
    if args.check is None and old is not None and old.machine != machine():
        raise UsageError(f"-o {args.output}: {another_machine(old)}; write to another file")
    return old


def _table(path: Path, *, needed: bool) -> Table | None:
    """Return the table of a file, or None where there may be none, and there is none.

    Raises:
        UsageError: it is there and no table, or cannot be written.
    """
    try:
        if not needed and not path.exists():
            check_writable("-o", path)
            return None
        folder = Path(os.path.realpath(path)).parent
        if not needed and not os.access(folder, os.W_OK):  # the new table is made beside the old
            raise UsageError(f"-o {path}: cannot write to {folder}")
        return Table.load(path)
    except TableError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _wanted(args: argparse.Namespace) -> Wanted:
    from collectives.tune import SIZES, Wanted

    return Wanted(
        collectives=tuple(find_collectives(args.collective)),
        sizes=tuple(sorted(set(args.sizes or SIZES))),
        executors=None if args.executor is None else tuple(args.executor),
        placements=None if args.placement is None else tuple(args.placement),
        dtype=args.dtype,
        budget=args.budget,
    )


def _measure(comm: MPI.Comm, args: argparse.Namespace, old: Table | None) -> int:
    from collectives.check_table import LIMIT, check
    from collectives.tune import tune

    wanted = _wanted(args)
    if args.check is not None and old is not None:
        if comm.Get_rank() == 0 and another_machine(old):
            _say(another_machine(old))
        found = check(comm, old, wanted, _say)
        worst = max(found, key=lambda r: r.ratio)
        if comm.Get_rank() == 0:
            _say(
                f"worst: {worst.ratio:.2f} x the best, {worst.collective} at {worst.nbytes} bytes; "
                f"the limit is {LIMIT}"
            )
        return 1 if worst.ratio > LIMIT else 0
    if old is not None:
        _check_home(old)
    say = _say if args.terminal != "both" else _say_anew
    table = tune(comm, wanted, say, _Shown(sys.stderr, terminal=args.terminal is not None))
    if not table.sections:
        if comm.Get_rank() == 0:
            print(
                f"python -m collectives tune: error: no section could be measured; "
                f"{args.output} is not written",
                file=sys.stderr,
            )
        return 1
    if comm.Get_rank() == 0:
        merged = joined(old, table)
        try:
            merged.save(args.output)
        except OSError as error:
            raise UsageError(f"-o {args.output}: {error.strerror}") from error
        _say(f"written: {args.output}, {len(merged.sections)} sections")
    return 0


_ANEW = "\r\x1b[K"  # to a terminal: write this line anew


class _Shown:
    """Shows how far it is: in a line that is written anew each time, or in one for each section.

    Args:
        out: where to write.
        terminal: it is one.
    """

    def __init__(self, out: TextIO, *, terminal: bool) -> None:
        self._out, self._terminal = out, terminal

    def __call__(self, p: Progress) -> None:
        """Show it."""
        done = p.length == p.lengths
        left = f"about {max(0.0, p.left):.0f} s left"
        if not self._terminal:
            if done:
                self._write(f"{p.section} of {p.sections} sections: {p.title}; {left}\n")
            return
        text = f"section {p.section} of {p.sections}: {p.title}, {p.length} of {p.lengths} lengths"
        # It goes before the lines of the section come.
        self._write(_ANEW + ("" if done else f"{text}; {left}"))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def _check_home(old: Table) -> None:
    """Check that a table can be added to.

    Raises:
        UsageError: it was measured with another MPI.
    """
    from collectives.bench.run import library

    if old.mpi != library():
        raise UsageError(
            f"the table was measured with {old.mpi}, and this is {library()}: write to another file"
        )


def joined(old: Table | None, new: Table) -> Table:
    """Return the new table with what only the old one has."""
    if old is None:
        return new
    fresh = {(s.collective, s.ranks, s.placement, s.itemsize) for s in new.sections}
    kept = [
        s for s in old.sections if (s.collective, s.ranks, s.placement, s.itemsize) not in fresh
    ]
    return replace(new, fits={**old.fits, **new.fits}, sections=(*kept, *new.sections))


def _say(line: str) -> None:
    print(line, flush=True)


def _say_anew(line: str) -> None:
    """Write a line where that of `_Shown` may be."""
    _say(_ANEW + line)
