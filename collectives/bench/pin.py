"""Give each rank a core of its own, where there are enough."""

from __future__ import annotations

import os

from mpi4py import MPI

from collectives import cores


def pin(comm: MPI.Comm) -> str:
    """Bind each rank to one core, by its number on its node; return what was done, for the header.

    Nothing is done where ranks outnumber cores, where a rank has its node to itself, or where the
    launcher has bound the ranks already. The same text is returned on all ranks.
    """
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned: this system has no sched_setaffinity"
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    allowed = cores.allowed_cores()
    everyone = node.allgather(allowed)
    local, ranks = node.Get_rank(), node.Get_size()
    node.Free()
    if any(others != allowed for others in everyone):
        done = "as the launcher has bound the ranks"
    elif ranks == 1 and comm.Get_size() > 1:
        done = "not pinned: one rank on a node"
    elif ranks > len(allowed):
        done = f"not pinned: {ranks} ranks on {len(allowed)} cores take turns"
    else:
        core = allowed[local * len(allowed) // ranks]
        os.sched_setaffinity(0, {core})
        done = f"core {core}"
    found: list[str] = comm.allgather(done)
    if all(text.startswith("core ") for text in found):
        return "pinned, rank by rank: core " + " ".join(text.split()[1] for text in found)
    # Nodes may differ; what is worth knowing is that of the first that is not pinned.
    return next(text for text in found if not text.startswith("core "))


def has_own_cores(comm: MPI.Comm) -> bool:
    """Return whether every node has at least as many cores as ranks. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    enough = cores.has_own_cores(node)
    node.Free()
    return bool(comm.allreduce(enough, MPI.LAND))
