"""A private communicator for each communicator, so that no tag can meet the user's own.

The duplicate is made once, at the first plan on a communicator, kept as an attribute of it, and
freed with it. Plans are made in the same order on all ranks, so a counter gives each its own tag.
"""

from __future__ import annotations

import functools
from typing import Any

from mpi4py import MPI

TAGS = 1 << 15
"""How many plans of one communicator can be told apart: the tags that every MPI has."""


class _Channel:
    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.plans = 0


def _free(comm: MPI.Comm, keyval: int, channel: Any) -> None:
    if not MPI.Is_finalized():
        channel.comm.Free()


@functools.cache
def _keyval() -> int:
    # None as copy function: a duplicate of the user's communicator gets a channel of its own.
    return MPI.Comm.Create_keyval(None, _free)


def check_comm(comm: Any) -> None:
    """Check that ``comm`` is one that collectives can run on.

    Raises:
        TypeError: it is not a communicator of mpi4py.
        ValueError: it is MPI.COMM_NULL or an intercommunicator.
    """
    if not isinstance(comm, MPI.Comm):
        raise TypeError(f"comm: is a {type(comm).__name__}; needs a communicator of mpi4py")
    if comm == MPI.COMM_NULL or comm.Is_inter():
        raise ValueError("comm: needs an intracommunicator that this rank belongs to")


def open_channel(comm: MPI.Comm) -> tuple[MPI.Comm, int]:
    """Return the private duplicate of ``comm`` and a tag for one plan. Collective at first use.

    Raises:
        TypeError: ``comm`` is not a communicator.
        ValueError: ``comm`` is MPI.COMM_NULL or an intercommunicator.
    """
    check_comm(comm)
    channel: Any = comm.Get_attr(_keyval())
    if channel is None:
        channel = _Channel(comm.Dup())
        comm.Set_attr(_keyval(), channel)
    tag = channel.plans % TAGS
    channel.plans += 1
    return channel.comm, tag
