"""The cores that ranks may run on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


def allowed_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on, in order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def has_own_cores(node: MPI.Comm) -> bool:
    """Return whether there are as many cores as ranks. Collective; the same on all ranks.

    Args:
        node: ranks that are on one node, bound to cores or not.
    """
    found: set[int] = set()
    for cores in node.allgather(allowed_cores()):
        found.update(cores)
    return len(found) >= node.Get_size()
