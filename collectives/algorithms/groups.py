"""Algorithms among groups of the ranks, as parts of an algorithm among all of them.

An algorithm numbers its ranks and blocks from 0. Here these become some of the ranks and some of
the blocks of all: block b of a group begins at block ``cut(b)`` of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from collectives.registry import Algorithm
from collectives.step import NULL, Round, Step, Zero

Cut = Callable[[Any], Any]


def evenly(first: Any, length: Any, parts: int) -> Cut:
    """Return the cut of blocks ``first .. first + length - 1`` into equally many for each part."""
    return lambda block: first + block * (length // parts)


def embed(
    rounds: Iterable[Round], peer: Callable[[Any], Any], cut: Cut, among: Any = True
) -> Iterator[Round]:
    """Yield the rounds of a group as rounds of all.

    Args:
        rounds: in the ranks and blocks of the group.
        peer: ``peer(member)`` -> the rank of a member of the group.
        cut: ``cut(block)`` -> the block of all at which a block of the group begins.
        among: whether the rank takes part; others get steps that do nothing.
    """

    def outside(s: Step) -> Step:
        first = cut(s.block)
        count = cut(s.block + s.count) - first
        if isinstance(s, Zero):
            return Zero(first, np.where(among, count, 0))
        there = np.not_equal(s.peer, NULL) & among
        return type(s)(np.where(there, peer(s.peer), NULL), first, count)

    for steps in rounds:
        yield [outside(s) for s in steps]


def group_lengths(size: int, node: int) -> list[int]:
    """Return how many ranks a group has: ``node``, and what is left for the last one."""
    return sorted({min(node, size), size % node} - {0})


def in_groups(
    algorithm: Algorithm,
    rank: Any,
    size: int,
    node: int,
    blocks: Callable[[Any, int], tuple[Any, Any]],
) -> Iterator[Round]:
    """Let every ``node`` consecutive ranks run an algorithm; the last group may have fewer.

    Args:
        algorithm: which one.
        rank: a rank or all of them.
        size: number of ranks.
        node: ranks in a group.
        blocks: ``blocks(first, length)`` -> the first of the blocks on which the group of
            ``length`` ranks from ``first`` on works, and how many.
    """
    leader = rank - rank % node
    parts = []
    for length in group_lengths(size, node):
        among = np.minimum(node, size - leader) == length
        rounds = algorithm.generate(rank % node % length, length)
        begin, count = blocks(leader, length)
        cut = evenly(begin, count, algorithm.blocks(length))
        parts.append(embed(rounds, lambda member: leader + member, cut, among))
    for together in zip_longest(*parts, fillvalue=[]):
        yield [step for steps in together for step in steps]


def across_groups(
    algorithm: Algorithm, rank: Any, size: int, node: int, cut: Cut, among: Any
) -> Iterator[Round]:
    """Let the ranks with the same place in their group run an algorithm, for each place at once.

    Args:
        algorithm: which one.
        rank: a rank or all of them.
        size: number of ranks.
        node: ranks in a group.
        cut: of the blocks on which they work.
        among: which ranks do so.
    """
    rounds = algorithm.generate(rank // node, -(-size // node))
    yield from embed(rounds, lambda member: member * node + rank % node, cut, among)
