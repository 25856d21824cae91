"""Which algorithm and which executor a plan takes: the same on all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from collectives.arguments import at
from collectives.channel import open_channel
from collectives.collective import ALLREDUCE, ALLTOALL
from collectives.executors.native import NotNative, can_run, check_numba, numba_is_there
from collectives.executors.shared import check_shared, lies_in_window
from collectives.libraries import cut, messages_are_quicker
from collectives.options import Settings
from collectives.registry import REGISTRY
from collectives.select import choose
from collectives.sharedmemory import SharedMemoryError
from collectives.window import Node, known_node, open_node

if TYPE_CHECKING:
    from collectives.bind import Job

DIRECT = "direct"
"""What the shared executor does is this algorithm, where it has a name of a schedule."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a plan takes.

    Attributes:
        algorithm: as `collectives.registry.Registry.get` takes it.
        executor: "python", "native", "shared"; or "auto": native where that is possible here.
    """

    algorithm: str
    executor: str


def decide(job: Job, comm: MPI.Comm, settings: Settings) -> Decision:
    """Return what a plan takes. Collective over ``comm`` where the algorithm is left open.

    Raises:
        ValueError: there is no such algorithm, or the executor cannot run here.
    """
    if settings.executor == "native":
        check_numba()
    size = comm.Get_size()
    if settings.algorithm != "auto":
        if settings.executor == "shared" and settings.algorithm == DIRECT:
            return Decision(DIRECT, "shared")
        found = REGISTRY.get(job.collective, settings.algorithm)
        if job.straight and found.blocks(size) != 2 * size:
            raise ValueError(
                f"algorithm={settings.algorithm!r}: passes data on, and so needs parts of one "
                "length; name another or leave the counts out"
            )
        return Decision(settings.algorithm, settings.executor)
    if settings.executor == "shared":
        return Decision(DIRECT, "shared")
    if settings.executor == "auto" and size > 1:
        return _free_choice(job, comm, settings)
    there = numba_is_there() if settings.executor == "auto" else settings.executor == "native"
    return _scheduled(job, comm, settings, ("native",) if there else ("python",))


def _free_choice(job: Job, comm: MPI.Comm, settings: Settings) -> Decision:
    native, shared, window = _agreed(job, comm)
    executors: tuple[str, ...] = ("native", "python") if native else ("python",)
    node = _node(comm)
    # Between nodes the shared executor has an allreduce only.
    if shared and node is not None and (node.whole or job.collective is ALLREDUCE):
        choice = _from_table(job, comm, settings, ("shared", *executors), window)
        if choice is not None:
            return choice
        if node.whole:
            shared = window or not messages_are_quicker(job.nbytes, MPI.get_vendor()[0])
        else:
            shared = node.largest > 1
        if shared:
            return Decision(DIRECT, "shared")
    return _scheduled(job, comm, settings, executors)


def _from_table(
    job: Job, comm: MPI.Comm, settings: Settings, executors: tuple[str, ...], window: bool
) -> Decision | None:
    if settings.table is None:
        return None
    choice = choose(
        job.collective,
        comm.Get_size(),
        job.nbytes,
        table=settings.table,
        executors=executors,
        placement="window" if window else "private",
        itemsize=int(job.array.dtype.itemsize),
    )
    return Decision(choice.algorithm, choice.executor) if choice.source == "table" else None


def _scheduled(
    job: Job, comm: MPI.Comm, settings: Settings, executors: tuple[str, ...]
) -> Decision:
    if job.straight:
        assert job.collective is ALLTOALL
        return Decision("pairwise", "auto" if settings.executor == "auto" else executors[0])
    size = comm.Get_size()
    node = _node(comm) if size > 1 else None
    network = node is not None and not node.whole
    choice = choose(
        job.collective,
        size,
        job.nbytes,
        table=settings.table,
        executors=executors,
        itemsize=int(job.array.dtype.itemsize),
        network=network,
    )
    algorithm = choice.algorithm
    if choice.source == "model" and job.collective is ALLREDUCE:
        library = MPI.get_vendor()[0]
        own = node is None or node.own_cores
        algorithm = cut(job.nbytes, size, library, network=network, own_cores=own) or algorithm
    if settings.executor != "auto":
        return Decision(algorithm, settings.executor)
    return Decision(algorithm, "auto" if choice.executor == "native" else "python")


def _agreed(job: Job, comm: MPI.Comm) -> tuple[bool, bool, bool]:
    """Return whether on all ranks: native can run it; so can shared; all data lie in windows.

    Raises:
        ValueError: the data of some ranks lie on the host and those of others on devices.
    """
    arrays = [a for a in (job.source, job.target) if a is not None]
    host = all(isinstance(a, np.ndarray) for a in arrays)
    device = not any(isinstance(a, np.ndarray) for a in arrays)
    shared = native = can_run(job)
    if shared:
        try:
            check_shared(job)
        except NotNative:
            shared = False
    window = shared and known_node(comm) is not None and lies_in_window(comm, arrays)
    mine = np.array([native, shared, window, host, device], np.int8)
    channel = open_channel(comm)
    channel.finish(channel.comm.Iallreduce(MPI.IN_PLACE, mine, MPI.MIN))
    if not (mine[3] or mine[4]):
        raise ValueError(
            "the arrays of some ranks lie on the host and those of others on a device; here on "
            f"{'the host' if host else 'a device'}{at(comm)}"
        )
    return bool(mine[0]), bool(mine[1]), bool(mine[2])


def _node(comm: MPI.Comm) -> Node | None:
    try:
        return open_node(comm)
    except SharedMemoryError:
        return None  # on all ranks
