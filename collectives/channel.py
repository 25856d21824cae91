"""A private communicator for each communicator, so that no tag can meet the user's own.

The duplicate is made once, at the first plan on a communicator, kept as an attribute of it, and
freed with it. Plans are made in the same order on all ranks, so a counter gives each its own tag.
"""

from __future__ import annotations

import functools
from typing import Any

from mpi4py import MPI


class _Channel:
    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.plans = 0


def _tag_limit(comm: MPI.Comm) -> int:
    limit: Any = comm.Get_attr(MPI.TAG_UB)
    return int(limit) + 1


def _free(comm: MPI.Comm, keyval: int, channel: Any) -> None:
    if not MPI.Is_finalized():
        channel.comm.Free()


@functools.cache
def _keyval() -> int:
    # None as copy function: a duplicate of the user's communicator gets a channel of its own.
    return MPI.Comm.Create_keyval(None, _free)


def open_channel(comm: MPI.Comm) -> tuple[MPI.Comm, int]:
    """Return the private duplicate of ``comm`` and a tag for one plan. Collective at first use.

    Raises:
        ValueError: ``comm`` is MPI.COMM_NULL or an intercommunicator.
    """
    if comm == MPI.COMM_NULL or comm.Is_inter():
        raise ValueError(f"comm={comm!r}: needs an intracommunicator that this rank belongs to")
    channel: Any = comm.Get_attr(_keyval())
    if channel is None:
        channel = _Channel(comm.Dup())
        comm.Set_attr(_keyval(), channel)
    tag = channel.plans % (_tag_limit(comm))
    channel.plans += 1
    return channel.comm, tag
