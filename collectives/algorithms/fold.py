"""Fold any number of ranks onto a power of two, and unfold the result.

Algorithms that pair ranks by ``rank XOR bit`` need a power of two. The ranks beyond the largest
one first add their data to a partner's, sit out, and are sent the result at the end
(Thakur, Rabenseifner & Gropp 2005). It costs one message of the full vector at either end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from collectives.step import NULL, Index, Recv, Reduce, Round, Send, Step

Kind = TypeVar("Kind", Send, Recv, Reduce)


def core_size(size: int) -> int:
    """Return the largest power of two that is not above ``size``."""
    return 1 << (size.bit_length() - 1)


def fold(rank: Any, size: int, blocks: int) -> Iterator[Round]:
    """Let each rank from ``core_size(size)`` on add its vector to that of its partner."""
    core = core_size(size)
    if core < size:
        to = np.where(rank >= core, rank - core, NULL)
        frm = np.where(rank < size - core, rank + core, NULL)
        yield [Send(to, 0, blocks), Reduce(frm, 0, blocks)]


def unfold(rank: Any, size: int, blocks: int) -> Iterator[Round]:
    """Send the result to the ranks that sat out."""
    core = core_size(size)
    if core < size:
        to = np.where(rank < size - core, rank + core, NULL)
        frm = np.where(rank >= core, rank - core, NULL)
        yield [Send(to, 0, blocks), Recv(frm, 0, blocks)]


def both(kind: type[Kind], peer: Index, first: Any, count: int, size: int) -> list[Step]:
    """Return the steps for the blocks of ``count`` ranks from ``first`` on, and of their partners.

    Block r belongs to rank r; the partner of rank r is ``core_size(size) + r``, where there is one.
    """
    core = core_size(size)
    partners = np.clip(size - core - first, 0, count)
    return [kind(peer, first, count), kind(peer, core + first, partners)]
