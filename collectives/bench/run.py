"""Run a benchmark on the ranks that there are."""

from __future__ import annotations

import os
from collections.abc import Callable

from mpi4py import MPI

from collectives.bench.buffers import Buffers
from collectives.bench.measure import measure
from collectives.bench.pin import pin
from collectives.bench.room import check_room
from collectives.bench.settings import Settings
from collectives.bench.table import Row, heading, rows, table
from collectives.bench.variant import variants


def run(comm: MPI.Comm, settings: Settings, report: Callable[[str], object] = print) -> list[Row]:
    """Time all algorithms at all lengths. Collective; all ranks get the rows.

    Args:
        comm: all ranks of it take part.
        settings: what to time.
        report: takes the lines of the table as they come; called at rank 0 only.

    Raises:
        RoomError: the longest length does not fit in memory.
    """
    check_room(comm, settings)
    say = report if comm.Get_rank() == 0 else _silent
    name, version = MPI.get_vendor()
    mpi = f"{name} {'.'.join(map(str, version))}"
    say(_header(comm, settings, mpi))
    found: list[Row] = []
    seen = set()
    for nbytes in settings.sizes:
        buffers = Buffers(comm, settings, nbytes)
        length = buffers.data.nbytes
        if length in seen:  # rounded up to the same whole number of elements
            continue
        seen.add(length)
        ways = variants(comm, settings, buffers)
        timings = measure(comm, settings, ways)
        for way in ways:
            if way.plan is not None:
                way.plan.close()
        say(table(settings.collective, comm.Get_size(), length, timings))
        found += rows(settings.collective, mpi, comm.Get_size(), length, timings)
    return found


def _header(comm: MPI.Comm, settings: Settings, mpi: str) -> str:
    pinned = pin(comm)
    nodes = len(set(comm.allgather(MPI.Get_processor_name())))
    reduces = settings.collective.name in ("allreduce", "reduce", "reduce_scatter")
    return "\n".join(
        (
            f"# {settings.collective.name}, {settings.dtype}"
            + (f", {settings.op.name}" if reduces else "")
            + f": {comm.Get_size()} ranks on {nodes} node{'s' if nodes > 1 else ''}, {mpi}",
            f"# {os.cpu_count()} cores on the first node; {pinned}",
            f"# runs: {settings.least} to {settings.most} of each in turns, as {settings.budget:g} "
            "s a length allow; the time of a run is that of the slowest rank",
            "# busbw as in nccl-tests; ratio: to the faster of the library's own calls; wrong: "
            "elements unlike its result",
            heading(),
        )
    )


def _silent(line: str) -> None:
    """Take a line at the other ranks."""
