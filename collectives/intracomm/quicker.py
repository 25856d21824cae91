"""Where ours are quicker than the library's own calls: what "auto" means in a drop-in.

A program that is put on the drop-in must not become slower. So what nobody has asked for is left to
the library, unless ours was measured to be quicker: with two ranks on one node, each on a core of
its own, and arrays that are no windows. Calls that move data are quicker in the library, which
reads the memory of another process directly and is called without Python; reductions are quicker in
shared memory as soon as they are long enough to pay for Python. Non-blocking calls are the
library's, since ours go on only while Python looks after them. On several nodes nothing was
measured, and all is the library's.

Whoever knows better names an algorithm, an executor, a table that ``python -m collectives tune``
has made, or "ours".
"""

from __future__ import annotations

import sys

from mpi4py import MPI

QUICKER = {
    ("MPICH", "allreduce"): ((16 << 10, 4 << 20), (16 << 20, sys.maxsize)),
    ("MPICH", "reduce"): ((512 << 10, sys.maxsize),),
    ("Open MPI", "allreduce"): ((32 << 10, 1 << 20), (16 << 20, sys.maxsize)),
    ("Intel MPI", "allreduce"): ((4 << 20, 32 << 20), (64 << 20, sys.maxsize)),
}
"""By MPI library and collective: lengths in bytes, from a first to below a second."""


def quicker(collective: str, nbytes: int) -> bool:
    """Return whether ours was measured to be quicker, on this MPI library and on one node.

    Args:
        collective: its name.
        nbytes: length of the buffer of a rank.
    """
    return any(low <= nbytes < high for low, high in _lengths(collective))


def least(collective: str) -> int:
    """Return the length in bytes from which ours may be quicker; ``sys.maxsize``: it never is."""
    return min((low for low, _ in _lengths(collective)), default=sys.maxsize)


def _lengths(collective: str) -> tuple[tuple[int, int], ...]:
    return QUICKER.get((MPI.get_vendor()[0], collective), ())
