"""Is there memory for a benchmark?"""

from __future__ import annotations

from pathlib import Path

from mpi4py import MPI

from collectives.bench.settings import Settings
from collectives.registry import REGISTRY


class RoomError(ValueError):
    """A node has not as much memory as a benchmark would take."""

    plain = True


def check_room(comm: MPI.Comm, settings: Settings) -> None:
    """Check, before anything is allocated, that the longest length fits in memory. Collective.

    Each rank holds, in each placement, the input and a buffer for each way to work (in place and
    not), what must come out, and the scratch of each plan, which is at most as long again.

    Raises:
        RoomError: it does not, on some node; on all ranks.
    """
    algorithms = settings.algorithms or REGISTRY.names(settings.collective)
    placements = {"private", *settings.placements}
    plans = len(algorithms) * len(settings.executors) * len(settings.placements)
    ask_room(comm, max(settings.sizes), 1 + 3 * len(placements) + plans)


def ask_room(comm: MPI.Comm, nbytes: int, buffers: int) -> None:
    """Check that each rank can have so many buffers of a length. Collective.

    Raises:
        RoomError: it cannot, on some node; on all ranks.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    need = nbytes * buffers * node.Get_size()
    node.Free()
    there = _available()
    short = comm.allreduce(there is not None and need > there, MPI.LOR)
    if short:
        raise RoomError(
            f"--bytes: {nbytes} bytes need about {need / 2**30:.1f} GiB on a node for "
            f"all its ranks; there are {(there or 0) / 2**30:.1f} GiB"
        )


def _available() -> int | None:
    """Return the bytes of memory that can be had without swapping, or None where Linux is not."""
    path = Path("/proc/meminfo")
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
