"""Double binary tree: two trees at once, each for half of the data, so that all links are busy.

Rank 0 is the root of both. Below it the others form two binary trees in which every rank but one
has children in one tree only, so it sends about as much as it receives: no more than n bytes in a
broadcast or a reduction, 2 n in an allreduce. A segment takes ceil(log2 p) rounds at most. The
paper colours the edges so that a rank sends and receives one segment in a round; here a round has
the messages of both trees, up to two each way, and in an allreduce four.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from collectives.algorithms.inorder import Edges, depth, two_trees
from collectives.algorithms.segments import DEFAULT, SEGMENTS, on_edge
from collectives.collective import ALLREDUCE, BCAST, REDUCE
from collectives.registry import algorithm
from collectives.step import NULL, Recv, Reduce, Round, Send

PAPER = "Sanders, Speck & Träff 2009"


def _down(trees: list[Edges], k: int, segments: int) -> Round:
    steps: Round = []
    for first, e in zip((0, segments), trees, strict=True):
        mine = k - e.depth  # the segment that a rank passes on in round k; behind it comes the next
        for child in (e.left, e.right):
            steps.append(on_edge(Send, child, child != NULL, mine, segments, first))
        steps.append(on_edge(Recv, e.parent, e.parent != NULL, mine + 1, segments, first))
    return steps


def _up(trees: list[Edges], k: int, segments: int) -> Round:
    steps: Round = []
    for first, e in zip((0, segments), trees, strict=True):
        mine = k - (e.deepest - e.depth)
        steps.append(on_edge(Send, e.parent, e.parent != NULL, mine, segments, first))
        for child in (e.left, e.right):
            steps.append(on_edge(Reduce, child, child != NULL, mine + 1, segments, first))
    return steps


def _blocks(size: int, segments: int = DEFAULT) -> int:
    return 2 * segments


@algorithm(BCAST, blocks=_blocks, name="double_tree", paper=PAPER, tunables=SEGMENTS)
def bcast(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Send one half of the segments down one tree, the other half down the other."""
    trees = two_trees(rank, size)
    for k in range(segments + depth(size) - 1 if size > 1 else 0):
        yield _down(trees, k, segments)


@algorithm(REDUCE, blocks=_blocks, name="double_tree", paper=PAPER, tunables=SEGMENTS)
def reduce(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Sum one half of the segments up one tree, the other half up the other."""
    trees = two_trees(rank, size)
    for k in range(segments + depth(size) - 1 if size > 1 else 0):
        yield _up(trees, k, segments)


@algorithm(ALLREDUCE, blocks=_blocks, name="double_tree", paper=PAPER, tunables=SEGMENTS)
def allreduce(rank: Any, size: int, segments: int = DEFAULT) -> Iterator[Round]:
    """Sum up both trees; each segment turns round at rank 0 and is passed down its tree."""
    trees = two_trees(rank, size)
    for k in range(segments + 2 * depth(size) - 1 if size > 1 else 0):
        yield _up(trees, k, segments) + _down(trees, k - depth(size), segments)
