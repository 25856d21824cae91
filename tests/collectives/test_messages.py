"""Rounds, messages and volume of each algorithm against the formulas of the papers.

n bytes on p ranks; "at most" what the busiest rank sends. Ring: Patarasuk & Yuan 2009. Others:
Thakur, Rabenseifner & Gropp 2005; Ben-Nun & Hoefler 2019, section 2.
"""

from collections import defaultdict
from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest

from collectives.blocks import Split
from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
)
from collectives.messages import Piece, Sent, messages_of, sent_by
from collectives.step import Recv, Reduce, Send, rounds_of
from collectives.verify import ScheduleError

from .algorithms import every_algorithm, made, named

POWERS = [2, 4, 8, 16, 32]
SIZES = list(range(2, 14))


def sent(algorithm, size, n):
    """Rounds, and messages and bytes that each rank sends, with n bytes in equal blocks."""
    rounds, messages = messages_of(algorithm, size)
    blocks = algorithm.blocks(size)
    if not algorithm.collective.one_space:
        blocks //= 2
    assert n % blocks == 0
    count, volume = np.zeros(size, int), np.zeros(size, int)
    for m in messages:
        if m.source != m.target:
            count[m.source] += 1
            volume[m.source] += m.count * n // blocks
    return rounds, count, volume


@pytest.mark.parametrize("p", SIZES)
def test_ring(p):
    n = 12 * p
    rounds, count, volume = sent(named("ring"), p, n)
    assert rounds == 2 * (p - 1)
    assert (count == 2 * (p - 1)).all()
    assert (volume == 2 * n * (p - 1) // p).all()


@pytest.mark.parametrize("collective", [REDUCE_SCATTER, ALLGATHER])
@pytest.mark.parametrize("p", SIZES)
def test_half_a_ring(p, collective):
    n = 12 * p
    rounds, count, volume = sent(named("ring", collective), p, n)
    assert rounds == p - 1
    assert (count == p - 1).all()
    assert (volume == n * (p - 1) // p).all()


@pytest.mark.parametrize("p", SIZES)
def test_pairwise(p):
    n = 12 * p
    _, count, volume = sent(named("pairwise", ALLTOALL), p, n)
    assert (count == p - 1).all()
    assert (volume == n * (p - 1) // p).all()


@pytest.mark.parametrize("p", SIZES)
def test_tree(p):
    n, lg = 96, ceil(log2(p))
    rounds, count, volume = sent(named("tree"), p, n)
    assert rounds == 2 * lg
    assert count.sum() == 2 * (p - 1)
    assert volume.sum() == 2 * n * (p - 1)
    assert volume[0] == volume.max() == lg * n


@pytest.mark.parametrize("collective", [REDUCE, BCAST])
@pytest.mark.parametrize("p", SIZES)
def test_binomial(p, collective):
    rounds, count, _ = sent(named("binomial", collective), p, 8)
    assert rounds == ceil(log2(p))
    assert count.sum() == p - 1


@pytest.mark.parametrize("p", POWERS)
def test_recursive_doubling(p):
    n, lg = 96, int(log2(p))
    rounds, count, volume = sent(named("recursive_doubling"), p, n)
    assert rounds == lg
    assert (count == lg).all()
    assert (volume == n * lg).all()


@pytest.mark.parametrize("p", POWERS)
def test_rabenseifner(p):
    n, lg = 96, int(log2(p))
    rounds, count, volume = sent(named("rabenseifner"), p, n)
    assert rounds == 2 * lg
    assert (count == 2 * lg).all()
    assert (volume == 2 * n * (p - 1) // p).all()


@pytest.mark.parametrize(
    ("name", "collective", "distances"),
    [
        ("rabenseifner", ALLREDUCE, {8: 1, 4: 2, 2: 4, 1: 8}),
        ("rabenseifner", REDUCE, {8: 1, 4: 2, 2: 4, 1: 8}),
        ("swing", ALLREDUCE, {8: 1, 4: 1, 2: 3, 1: 5}),
    ],
)
def test_the_longest_messages_go_to_the_nearest_ranks(name, collective, distances):
    """Rabenseifner 2004: half as much, twice as far; De Sensi et al. 2024: 1, -1, 3, -5, ..."""
    for m in messages_of(named(name, collective), 16)[1]:
        apart = (m.target - m.source) % 16
        assert min(apart, 16 - apart) == distances[m.count]


@pytest.mark.parametrize("name", ["recursive_doubling", "rabenseifner"])
@pytest.mark.parametrize("p", [3, 5, 6, 7, 11, 13])
def test_the_fold_costs_two_rounds_and_two_messages_for_each_rank_too_many(p, name):
    core, n = 2 ** int(log2(p)), 96
    rounds, count, volume = sent(named(name), p, n)
    inner_rounds, inner_count, inner_volume = sent(named(name), core, n)
    assert rounds == inner_rounds + 2
    assert count.sum() == inner_count.sum() + 2 * (p - core)
    assert volume.sum() == inner_volume.sum() + 2 * n * (p - core)


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 6, 8])
def test_messages_are_the_sends_and_have_the_kind_of_their_receive(algorithm, p):
    rounds, messages = messages_of(algorithm, p)
    assert len({m.round for m in messages}) <= rounds
    assert len({(m.round, m.source, m.target) for m in messages}) == len(messages)
    sends, takes = defaultdict(list), defaultdict(list)
    for rank in range(p):
        for k, steps in enumerate(rounds_of(algorithm.generate, rank, p)):
            for s in steps:
                if isinstance(s, Send):
                    sends[k, rank, s.peer].append((s.block, s.count))
                else:
                    kind = isinstance(s, Reduce)
                    takes[k, s.peer, rank].append((s.block, s.count, kind))
    found = {(m.round, m.source, m.target): m.pieces for m in messages}
    assert {k: [(q.block, q.count) for q in v] for k, v in found.items()} == sends
    assert {k: [(q.into, q.count, q.reduced) for q in v] for k, v in found.items()} == takes


def test_steps_between_two_ranks_are_matched_in_order_and_travel_as_one_message():
    def generate(rank, size):
        yield [Send(1, 2), Send(1, 0)] if rank == 0 else [Reduce(0, 2), Recv(0, 0)]

    algorithm = made(generate, blocks=lambda size: 3)
    _, (message,) = messages_of(algorithm, 2)
    assert message.pieces == (Piece(2, 1, 2, True), Piece(0, 1, 0, False))
    assert (message.count, message.reduced) == (2, True)
    assert sent_by(algorithm, 2) == Sent(1, (1, 0), (Fraction(2, 3), Fraction(0)))


def test_a_message_without_a_partner_is_refused():
    def generate(rank, size):
        yield [Send(1, 0)] if rank == 0 else []

    with pytest.raises(ScheduleError, match="rank 0, round 0: sends block 0 to rank 1"):
        messages_of(made(generate), 2)


@pytest.mark.parametrize("p", [3, 7])
def test_real_blocks_of_the_ring_differ_by_one_element(p):
    x = np.zeros(100, np.float32)
    lengths = [Split(x, p).views(b)[0].size for b in range(p)]
    assert sum(lengths) == 100
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("rabenseifner", ALLREDUCE),
        ("rabenseifner", REDUCE),
        ("swing", ALLREDUCE),
        ("recursive_doubling", ALLREDUCE),
        ("recursive_doubling", ALLGATHER),
        ("recursive_halving", REDUCE_SCATTER),
    ],
)
@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 13])
def test_ranks_too_many_talk_to_their_neighbour_only(name, collective, p):
    """Thakur, Rabenseifner & Gropp 2005: of the first 2 (p - q) ranks, each two are a pair."""
    many = p - 2 ** int(log2(p))
    talks = defaultdict(set)
    for m in messages_of(named(name, collective), p)[1]:
        talks[m.source].add(m.target)
        talks[m.target].add(m.source)
    alone = {rank: peers for rank, peers in talks.items() if rank % 2 and rank < 2 * many}
    assert alone == {2 * k + 1: {2 * k} for k in range(many)}


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("binomial", BCAST),
        ("binomial", REDUCE),
        ("binomial", SCATTER),
        ("binomial", GATHER),
    ],
)
@pytest.mark.parametrize(("nodes", "ranks"), [(2, 8), (4, 4), (8, 2), (5, 4), (3, 8)])
def test_a_binomial_tree_leaves_a_node_once_for_each_other_node(name, collective, nodes, ranks):
    """Each node of a power of two of ranks is a subtree of its own (Thakur et al. 2005)."""
    messages = messages_of(named(name, collective), nodes * ranks)[1]
    assert sum(m.source // ranks != m.target // ranks for m in messages) == nodes - 1
