"""``python -m collectives run``: a program of mpi4py on our collectives, unchanged."""

from __future__ import annotations

import argparse
import atexit
import os
import re
import runpy
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from collectives.candidates import SHARED
from collectives.collective import COLLECTIVES
from collectives.commands import ranks
from collectives.commands.arguments import MAX_SECONDS, NUMBER, UsageError, file_name, seconds
from collectives.commands.files import (
    another_machine,
    another_mpi,
    check_writable,
    is_open,
    write_no_more,
    written,
)
from collectives.launch import launcher_size
from collectives.table import EXECUTORS, Table
from collectives.table_reader import TableError

if TYPE_CHECKING:
    from mpi4py import MPI

    from collectives.intracomm.report import Report


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    ranks.add(parser)
    for name in COLLECTIVES:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default="auto",
            metavar="NAME",
            help=f"algorithm of {name}: one that 'list' shows, ours, library, or auto: the quicker",
        )
    parser.add_argument(
        "--executor", default="auto", metavar="NAME", help=f"auto, {', '.join(EXECUTORS)}"
    )
    parser.add_argument(
        "--table",
        type=file_name,
        metavar="FILE",
        help="what 'tune' measured; it rules what auto means",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare each call on all ranks first, but those that must not block; where they "
        "differ, say how, and end",
    )
    parser.add_argument(
        "--timeout",
        type=_limit,
        metavar="TIME",
        help="end the job where a call waits for longer than 60, 2.5s or 500ms, and show the "
        "stacks of all ranks",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="at the end, print for each place that calls a collective what it took",
    )
    parser.add_argument(
        "--report-file",
        type=file_name,
        metavar="FILE",
        help="write the report there, not to the output",
    )
    parser.add_argument(
        "--all", action="store_true", help="show all lengths and algorithms in the report"
    )
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE ARGS",
        help="run a module, as python -m does, in place of a script",
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT ARGS", help="the program, as it is"
    )


def _limit(text: str) -> float:
    """Read a time above 0; a plain number is in seconds, as ``timeout`` is in a program.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    plain = re.fullmatch(NUMBER, text, re.IGNORECASE)
    try:
        value = seconds(f"{text}s" if plain else text)
    except argparse.ArgumentTypeError:
        value = 0.0
    if value > 0:
        return value
    raise argparse.ArgumentTypeError(
        f"{text!r}: needs a time above 0, as 60 (seconds) or 500ms; the most is {MAX_SECONDS:g} s"
    )


def run(args: argparse.Namespace) -> int:
    """Run the program; its exit code is that of the job."""
    words = args.module if args.module is not None else args.program
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise UsageError("say which program to run: SCRIPT ARGS, or -m MODULE ARGS")
    if args.module is None and not os.path.exists(words[0]):
        raise UsageError(f"cannot open {words[0]}: there is no such file")
    inside = os.path.join(words[0], "__main__.py")
    if args.module is None and os.path.isdir(words[0]) and not os.path.exists(inside):
        raise UsageError(f"cannot run {words[0]}: there is no {inside}")
    reported = args.report or args.report_file is not None
    if args.all and not reported:
        raise UsageError("--all: is for --report, or --report-file FILE")
    algorithms = {name: getattr(args, name) for name in COLLECTIVES}
    _check(algorithms, args.executor)
    try:
        table = None if args.table is None else Table.load(args.table)
    except TableError as error:
        raise UsageError(str(error)) from None
    file = None if args.report_file is None else args.report_file.absolute()  # a program may chdir
    try:
        if file is not None and args.started is None and launcher_size(os.environ) is None:
            _check_file(file, words)
        comm = _join(args)
    except ranks.StartError as error:
        print(f"python -m collectives run: error: {error}", file=sys.stderr)
        return 1
    if comm.Get_rank() == 0 and table is not None:
        from collectives.bench.run import library

        for note in (another_machine(table), another_mpi(table, library())):
            if note:
                print(f"note: {note}", file=sys.stderr)
    report = None
    if reported:
        from collectives.abort import abort_on_exception
        from collectives.intracomm.report import Report

        report = Report()
        with abort_on_exception(comm):
            if file is not None and comm.Get_rank() == 0:
                _check_file(file, words)
    how: dict[str, Any] = {**algorithms, "executor": args.executor, "table": table}
    how |= {"report": report, "check": args.check, "timeout": args.timeout}
    write = partial(_write_report, comm, comm.Get_rank(), table, file, args.all)
    _run(comm, words, args.module is not None, how, write)
    return 0


def _check_file(file: Path, words: list[str]) -> None:
    """Find out before the program runs that its report cannot be written.

    Raises:
        UsageError: it cannot, or should not.
    """
    if os.path.exists(file) and os.path.exists(words[0]) and file.samefile(words[0]):
        raise UsageError(f"--report-file {file}: is the program")
    check_writable("--report-file", file)


def _check(algorithms: dict[str, str], executor: str) -> None:
    from collectives.commands.named import find_collectives, nearest
    from collectives.registry import REGISTRY

    if executor not in ("auto", *EXECUTORS):
        raise UsageError(f"--executor {executor}: there are auto, {', '.join(EXECUTORS)}")
    ranks.check_executors((executor,))
    others = ("auto", "ours", "library")
    for collective in find_collectives(algorithms):
        wanted = algorithms[collective.name]
        if wanted in others:
            continue
        option = f"--{collective.name.replace('_', '-')} {wanted}"
        known = [*REGISTRY.names(collective), *others]
        if wanted.partition(":")[0] not in known:
            raise UsageError(f"{option}{nearest(wanted, known)}: there are {', '.join(known)}")
        try:
            REGISTRY.get(collective, wanted)
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None
        if executor == SHARED.executor and wanted != SHARED.algorithm:
            raise UsageError(
                f"{option}: --executor shared has no schedules, only direct; leave one of them out"
            )


def _join(args: argparse.Namespace) -> MPI.Comm:
    """Become a rank; without -n and without a launcher the only one, as a script is."""
    if args.ranks is not None or args.started is not None:
        comm = ranks.join("run", args)
        from mpi4py import MPI

        atexit.unregister(MPI.Finalize)  # a program may do so itself
        atexit.register(_finalize)
        return comm
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI

        from collectives.launch import LaunchError, check_launcher, check_library
    except (ImportError, RuntimeError) as error:
        raise ranks.StartError(f"needs mpi4py and an MPI ({error})") from None
    try:
        check_library()
        MPI.Init_thread(MPI.THREAD_MULTIPLE)  # as mpi4py does by itself
        atexit.register(_finalize)
        check_launcher(MPI.COMM_WORLD)
    except LaunchError as error:
        raise ranks.StartError(str(error)) from None
    return MPI.COMM_WORLD


def _finalize() -> None:
    from mpi4py import MPI

    if not MPI.Is_finalized():
        MPI.Finalize()


def _run(
    comm: MPI.Comm,
    words: list[str],
    is_module: bool,
    how: dict[str, Any],
    write: Callable[[Report], None],
) -> None:
    from mpi4py import MPI

    from collectives.abort import abort_on_exception
    from collectives.intracomm import as_intracomm

    guard = abort_on_exception(comm)
    with guard:
        vars(MPI)["COMM_WORLD"] = as_intracomm(MPI.COMM_WORLD, **how)
    guard = abort_on_exception(comm)
    try:
        _execute(words, is_module)
    except SystemExit as error:
        if error.code not in (None, 0):
            guard.__exit__(SystemExit, error, None)
    except BaseException as error:
        guard.__exit__(type(error), error, _from_program(error.__traceback__))

    def end() -> None:
        vars(MPI)["COMM_WORLD"] = comm
        guard.__exit__(None, None, None)
        if how["report"] is not None:
            write(how["report"])

    if any(not t.daemon and t is not threading.current_thread() for t in threading.enumerate()):
        atexit.register(end)  # when Python has waited for the threads of the program
    else:
        end()


def _execute(words: list[str], is_module: bool) -> None:
    """Run a script or a module as Python itself does."""
    sys.argv[:] = words
    if is_module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def _from_program(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without what is not of the program: it begins where that does."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename != __file__ and "runpy" not in code.co_filename:
            return trace
        trace = trace.tb_next
    return None


def _write_report(
    comm: MPI.Comm, rank: int, table: Table | None, file: Path | None, every: bool, report: Report
) -> None:
    from mpi4py import MPI

    from collectives.bench.pin import has_own_cores
    from collectives.intracomm.report_text import report_text

    if MPI.Is_finalized():
        if rank == 0:
            print("no report: the program has ended MPI itself", file=sys.stderr)
        return
    own_cores = has_own_cores(comm)
    found = report.gather(comm)
    if found is None:
        return
    text = report_text(found, table, own_cores=own_cores, every=every)
    if file is not None:
        try:
            with written("--report-file", file) as report_file:
                report_file.write(text.encode(errors="backslashreplace"))
        except UsageError as error:
            print(f"no report: {error}", file=sys.stderr)
        return
    out = sys.__stdout__  # the program may have put something in its place
    if out is None or not is_open(out):
        print("no report: the program has closed standard output", file=sys.stderr)
        return
    try:
        if is_open(sys.stdout):
            sys.stdout.flush()
        # Names of files may have letters that the program's own output has not.
        text = text.encode(out.encoding, "backslashreplace").decode(out.encoding)
        print(text, end="", file=out, flush=True)
    except OSError as error:
        write_no_more()
        if not isinstance(error, BrokenPipeError):  # as in ``| head``
            print(f"no report: standard output: {error.strerror}", file=sys.stderr)
