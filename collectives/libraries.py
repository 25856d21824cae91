"""In what MPI libraries were measured to differ, where no table of the machine says otherwise."""

from __future__ import annotations

QUICK = {"Intel MPI": (8 << 10, 8 << 20)}
"""Lengths in bytes, by MPI library, between which its messages inside a node are quicker than
slots in shared memory; on other libraries they never were (two ranks on one node, measured by
``python -m collectives bench``)."""

LONG = 32 << 20
"""From this length on messages are quicker on every library: slots do not stay in a cache."""

CUT = {"Open MPI": 64 << 10}
"""Lengths in bytes, by MPI library, into which it is better to cut the messages of a long
allreduce: between nodes (four hosts, TCP, 1 Gbit/s) and, from `LONG` on, inside one. Others take
them whole as quickly; Intel MPI loses by more messages."""

MOST_SEGMENTS = 64


def messages_are_quicker(nbytes: int, library: str) -> bool:
    """Return whether messages inside a node are quicker than slots in shared memory.

    Args:
        nbytes: length of the buffer of a rank.
        library: the name of the MPI library, as ``MPI.get_vendor()`` says.
    """
    low, high = QUICK.get(library, (0, 0))
    return low <= nbytes < high or nbytes >= LONG


def cut(nbytes: int, library: str) -> str | None:
    """Return the ring in short messages where the library wants them; None: it does not.

    Args:
        nbytes: length of the part that a message of the ring has.
        library: the name of the MPI library, as ``MPI.get_vendor()`` says.
    """
    length = CUT.get(library)
    if length is None or nbytes < 2 * length:
        return None
    segments = min(MOST_SEGMENTS, 1 << (nbytes // length).bit_length() - 1)
    return f"ring:segments={segments}"
