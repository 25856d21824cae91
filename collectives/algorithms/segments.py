"""Pipelines: a vector is cut into segments that follow each other along the edges of a tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives.registry import Tunable
from collectives.step import NULL, Recv, Reduce, Send, Step

DEFAULT = 8

SEGMENTS = {
    "segments": Tunable(
        DEFAULT,
        lambda size: [1, 2, 4, 8, 16, 32, 64],
        "pieces that a vector is cut into, which follow each other",
    )
}


def on_edge(
    kind: type[Send] | type[Recv] | type[Reduce],
    peer: Any,
    there: Any,
    segment: Any,
    segments: int,
    first: int = 0,
) -> Step:
    """Return the step for one segment on an edge, which does nothing before and after the data.

    Args:
        kind: Send, Recv or Reduce.
        peer: the other end.
        there: whether the edge is there.
        segment: whose turn it is; below 0 or above the last one, it is nobody's.
        segments: how many there are.
        first: the block that is segment 0.
    """
    now = there & (segment >= 0) & (segment < segments)
    return kind(np.where(now, peer, NULL), first + segment)
