"""What subcommands that run on several ranks share: start the ranks, or be one of them."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from collectives.commands.arguments import UsageError, ranks_up_to

if TYPE_CHECKING:
    from mpi4py import MPI

MAX_RANKS = 4096
"""The most ranks that are started on one machine."""


class StartError(RuntimeError):
    """The ranks cannot be started. The message says what to do."""

    plain = True


class StoppedError(Exception):
    """Someone has pressed Ctrl-C: where each rank was, nobody wants to know."""

    plain = True


def add(parser: argparse.ArgumentParser) -> None:
    """Add the option for the number of ranks."""
    parser.add_argument(
        "-n",
        "--ranks",
        type=ranks_up_to(MAX_RANKS),
        metavar="P",
        help=f"start P ranks on this machine (2; at most {MAX_RANKS}); under mpiexec or srun: the "
        "ranks that there are",
    )
    # How a process is told that it is one of P ranks, whatever its launcher sets or does not set.
    parser.add_argument("--started", type=ranks_up_to(MAX_RANKS), help=argparse.SUPPRESS)


def check_executors(asked: Collection[str]) -> None:
    """Check that one of the executors that are asked for can be had on this machine.

    Raises:
        UsageError: all of them need numba, which is not installed.
    """
    if asked and {*asked} <= {"native", "shared"} and importlib.util.find_spec("numba") is None:
        raise UsageError(f"--executor {','.join(asked)}: needs numba (pip install 'hpcdl[native]')")


@contextlib.contextmanager
def together(comm: MPI.Comm) -> Iterator[None]:
    """End the whole job where one rank fails in the block, or Ctrl-C is pressed."""
    from collectives.abort import abort_on_exception

    with abort_on_exception(comm) as failing:

        def stop(*_: object) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a launcher may send it again
            failing.end(StoppedError("interrupted"))

        # Not by KeyboardInterrupt, which compiled code of others may swallow.
        before = signal.signal(signal.SIGINT, stop)
        yield
        signal.signal(signal.SIGINT, before)


def join(command: str, args: argparse.Namespace) -> MPI.Comm:
    """Become a rank, and return the communicator of all; or start the ranks, and do not return.

    Args:
        command: the name of the subcommand.
        args: its arguments, with those of `add`.

    Raises:
        UsageError: another number of ranks was started than is asked for; on the first rank.
        SystemExit: the same on the others, which say nothing.
        StartError: there is no MPI, or it is that of another launcher.
    """
    if args.started is not None and args.ranks not in (None, args.started):
        raise UsageError(f"--ranks {args.ranks}: {args.started} ranks were started")
    try:
        import mpi4py

        # This process becomes a rank only if a launcher has started it.
        mpi4py.rc.initialize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the latter: it finds no MPI library
        reason = " ".join(str(error).split())
        raise StartError(
            f"needs mpi4py and an MPI ({reason}): pip install 'hpcdl[mpich]'"
        ) from None
    from collectives.launch import (
        LaunchError,
        check_launcher,
        check_library,
        launcher_size,
        replace_by_mpiexec,
    )

    try:
        if args.started is None and launcher_size(os.environ) is None:
            ranks = args.ranks or 2
            after = list(args.argv).index(command) + 1
            words = [*args.argv[:after], "--started", str(ranks), *args.argv[after:]]
            replace_by_mpiexec(ranks, [sys.executable, "-m", "collectives", *words])
        check_library()
        MPI.Init_thread(MPI.THREAD_MULTIPLE)  # as mpi4py does by itself
        atexit.register(MPI.Finalize)
        check_launcher(MPI.COMM_WORLD, args.started)
    except LaunchError as error:
        raise StartError(str(error)) from None
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if args.ranks not in (None, size):
        if rank:
            raise SystemExit(2)  # the first rank says it, once
        raise UsageError(f"-n {args.ranks}, but mpiexec or srun started {size}; leave -n out")
    return MPI.COMM_WORLD
