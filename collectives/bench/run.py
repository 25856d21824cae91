"""Run a benchmark on the ranks that there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mpi4py import MPI

from collectives.bench.gloo import Gloo
from collectives.bench.measure import measure
from collectives.bench.overlap import measure_overlap
from collectives.bench.pin import pin
from collectives.bench.room import check_room
from collectives.bench.row import Row
from collectives.bench.settings import OVERLAPS, Settings
from collectives.bench.table import heading, rows, table
from collectives.bench.ways import Builder, RefusedError
from collectives.units import count_text

Report = Callable[[str], object]


def run(comm: MPI.Comm, settings: Sequence[Settings], report: Report = print) -> list[Row]:
    """Time all that is asked for, at all lengths. Collective; all ranks get the rows.

    Args:
        comm: all ranks of it take part.
        settings: what to time, one after the other.
        report: takes the lines of the tables as they come; called at rank 0 only.

    Raises:
        RoomError: the longest length does not fit in memory.
        RefusedError: nothing of what is asked for can be done.
    """
    for one in settings:
        check_room(comm, one)
    say = report if comm.Get_rank() == 0 else silent
    say(about_machine(comm))
    gloo = Gloo(comm) if any("gloo" in one.compare for one in settings) else None
    found: list[Row] = []
    refused: RefusedError | None = None
    for one in settings:
        try:
            found += _collective(comm, one, say, gloo)
        except RefusedError as error:  # on all ranks
            refused = error
            say(f"# {error}")
    if gloo is not None:
        gloo.close()
    if refused is not None and not found:
        raise refused
    return found


def _collective(comm: MPI.Comm, settings: Settings, say: Report, gloo: Gloo | None) -> list[Row]:
    overlap = bool(set(OVERLAPS) & set(settings.modes or ()))
    say(about(settings))
    say(heading(overlap=overlap))
    found: list[Row] = []
    left_out: set[str] = set()

    def note(reason: str) -> None:
        if reason not in left_out:
            left_out.add(reason)
            say(f"# left out: {reason}")

    seen: set[int] = set()
    ranks = comm.Get_size()
    for nbytes in settings.sizes:
        builder = Builder(comm, settings, nbytes, note, gloo)
        length = builder.ways.nbytes
        if length in seen:  # rounded up to the same whole number of elements
            continue
        seen.add(length)
        ways = builder.build()
        timings = []
        if ways.variants:
            timings += measure(comm, settings, ways.variants, calls=settings.batch)
        timings += measure_overlap(comm, settings, ways.overlapped)
        ways.close()
        say(table(settings.collective, ranks, length, timings, overlap=overlap))
        found += rows(settings, library(), ranks, length, timings)
    return found


def library() -> str:
    """Return the name and version of the MPI library."""
    name, version = MPI.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def about_machine(comm: MPI.Comm) -> str:
    """Bind the ranks to cores, and return what to say of them and of the machine. Collective."""
    pinned = pin(comm)
    nodes = len(set(comm.allgather(MPI.Get_processor_name())))
    return (
        f"# {count_text(comm.Get_size(), 'rank')} on {count_text(nodes, 'node')}, {library()}; "
        f"{os.cpu_count()} cores on the first node; {pinned}"
    )


def about(settings: Settings) -> str:
    """Return what stands over the table: what is timed, how, and what is compared with what."""
    return "\n".join(
        (
            f"# {settings.name}, {settings.dtype}" + f", {settings.op.name}" * settings.reduces,
            f"# runs: {settings.least} to {settings.most} of each in turns, as {settings.budget:g} "
            "s a length allows; a barrier before each; its time is that of the slowest rank; where "
            "each has a core, runs in which one lost it to another program are left out, if there "
            "are others of all",
            f"# a run is {calls_text(settings.batch)}, ours and the library's alike; the input is "
            "restored before, and so as warm as the caches can hold it",
            "# GB/s: bus bandwidth as in nccl-tests; ratio: to the faster of the library's own "
            "calls; wrong: elements unlike its result",
        )
    )


def calls_text(calls: int) -> str:
    """Return what is timed as one."""
    return "a single call" if calls == 1 else f"{calls} calls in a row"


def silent(line: str) -> None:
    """Take a line, on the ranks that do not print."""
