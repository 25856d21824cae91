"""Blocks in a circle: block 0 follows the last one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from collectives.step import Index, Recv, Reduce, Send, Step

Kind = TypeVar("Kind", Send, Recv, Reduce)


def wrapped(kind: type[Kind], peer: Index, first: Any, count: Any, size: int) -> list[Step]:
    """Return the steps for ``count`` blocks from ``first`` on: up to the last, and from 0 on."""
    head = np.minimum(count, size - first)
    return [kind(peer, first, head), kind(peer, 0, count - head)]
