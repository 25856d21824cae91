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
        message: that length in bytes; a part, of one rank, must fill two of them.
        start: bytes of the buffer of a rank from which on it is better.
        stop: bytes from which on it no longer is; 0: there is no such length.
        most: into so many messages, at most, is a part cut.
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

SHARED_CORE_MESSAGE = 4 << 20
"""Bytes of a message, at least, where ranks outnumber cores: each costs a turn of a core."""

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


def cut(
    nbytes: int, size: int, library: str, *, network: bool = False, own_cores: bool = True
) -> str | None:
    """Return the ring in short messages where the library wants them; None: it does not.

    Args:
        nbytes: length of the buffer of a rank.
        size: number of ranks.
        library: the name of the MPI library, as ``MPI.get_vendor()`` says.
        network: the ranks lie on several nodes.
        own_cores: no node has fewer cores than ranks.
    """
    found = (BETWEEN if network else INSIDE).get(library)
    if found is None or nbytes < found.start or 0 < found.stop <= nbytes:
        return None
    message = found.message if own_cores else max(found.message, SHARED_CORE_MESSAGE)
    messages = nbytes // size // message
    if messages < 2:
        return None
    return f"ring:segments={min(found.most, 1 << messages.bit_length() - 1)}"
