"""In what MPI libraries were measured to differ, where no table of the machine says otherwise."""

from __future__ import annotations

from typing import NamedTuple

QUICK = {"Intel MPI": (8 << 10, 8 << 20)}
"""Lengths in bytes, by MPI library, between which its messages inside a node are quicker than
slots in shared memory; on other libraries they never were (two ranks on one node, measured by
``python -m collectives bench``)."""

LONG = 32 << 20
"""From this length on messages are quicker on every library: slots do not stay in a cache."""


class Cut(NamedTuple):
    """Where a long allreduce is better done as a ring in messages of a certain length.

    Attributes:
        message: that length in bytes.
        start: of the buffers, in bytes, from which on it is; shorter ones need two messages a part.
        stop: the length from which on it no longer is; 0: there is none.
        most: no part is cut into more messages.
    """

    message: int
    start: int = 0
    stop: int = 0
    most: int = 64


INSIDE = {
    "MPICH": Cut(4 << 20, LONG),
    "Open MPI": Cut(4 << 20, LONG),
    "Intel MPI": Cut(128 << 10, 0, LONG, 32),
}
"""By MPI library, inside a node (two ranks). Intel MPI takes three to five times as long for
messages of 1 to 8 MiB as for shorter ones; from 16 MiB on that is over."""

BETWEEN = {"MPICH": Cut(512 << 10), "Open MPI": Cut(64 << 10)}
"""By MPI library, between nodes (four hosts, TCP, 1 Gbit/s). Intel MPI loses by more messages."""


def messages_are_quicker(nbytes: int, library: str) -> bool:
    """Return whether messages inside a node are quicker than slots in shared memory.

    Args:
        nbytes: length of the buffer of a rank.
        library: the name of the MPI library, as ``MPI.get_vendor()`` says.
    """
    low, high = QUICK.get(library, (0, 0))
    return low <= nbytes < high or nbytes >= LONG


def cut(nbytes: int, size: int, library: str, *, network: bool = False) -> str | None:
    """Return the ring in short messages where the library wants them; None: it does not.

    Args:
        nbytes: length of the buffer of a rank.
        size: number of ranks.
        library: the name of the MPI library, as ``MPI.get_vendor()`` says.
        network: the ranks lie on several nodes.
    """
    found = (BETWEEN if network else INSIDE).get(library)
    part = nbytes // size
    if (
        found is None
        or nbytes < found.start
        or 0 < found.stop <= nbytes
        or part < 2 * found.message
    ):
        return None
    segments = min(found.most, 1 << (part // found.message).bit_length() - 1)
    return f"ring:segments={segments}"
