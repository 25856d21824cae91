import time
from math import inf

import numpy as np
import pytest

from collectives.collective import ALLGATHER, BARRIER, BCAST, REDUCE
from collectives.model import Model
from collectives.noise import DISTRIBUTIONS, Noise
from collectives.simulate import simulate
from collectives.step import NULL, Recv, Reduce, Send, rounds_of
from collectives.topology import Topology

from .algorithms import every_algorithm, made, named
from .test_simulate import merged

NEAR = Model(latency=3e-7, byte_time=5e-11, reduce_time=7e-11, overhead=2e-7, gap=3e-7)
FAR = Model(latency=3e-6, byte_time=2e-10, reduce_time=0.0, overhead=5e-7, gap=9e-7)


def close(value):
    return pytest.approx(value, rel=1e-12)


def slowly(algorithm, size, nbytes, topology, start, slow):
    """The same model with scalars, message by message, from the schedules that run."""
    parts = algorithm.blocks(size) if algorithm.collective.one_space else size
    nbytes = parts if algorithm.collective is BARRIER else nbytes
    schedules = [rounds_of(algorithm.generate, r, size) for r in range(size)]
    node = topology.node_of(size)
    now, port = list(start), [-inf] * size
    out_free, in_free = [-inf] * size, [-inf] * size  # of nodes
    c = topology.within.reduce_time

    def costs(a, b):
        return topology.within if node[a] == node[b] else topology.between

    for steps in zip(*schedules, strict=True):
        on_the_way = {}
        left, busy = list(now), list(now)
        sends = [merged(steps[r], nbytes / parts, sending=True) for r in range(size)]
        for r in range(size):
            for (peer, _), _, _ in sends[r]:
                if peer == r:
                    on_the_way[r, r] = now[r]
            sends[r] = [(peer, b) for (peer, _), b, _ in sends[r] if peer != r]
        for turn in range(max(map(len, sends))):
            mine = [(r, *sends[r][turn]) for r in range(size) if turn < len(sends[r])]
            # Those between nodes wait for the link of the node, in the order of being ready.
            for r, peer, b in sorted(
                mine, key=lambda m: (left[m[0]] + FAR.overhead * slow[m[0]], m[0])
            ):
                m = costs(r, peer)
                o, on_link = m.overhead * slow[r], b * m.byte_time * slow[r]
                begin = left[r]
                if node[r] != node[peer]:
                    begin = max(begin, out_free[node[r]] - o)
                    out_free[node[r]] = begin + o + max(on_link, m.gap)
                on_the_way[r, peer] = begin + o + on_link + m.latency
                left[r] = begin + max(o + on_link, m.gap)
                busy[r] += o
        takes = [merged(steps[r], nbytes / parts, sending=False) for r in range(size)]
        for turn in range(max(map(len, takes))):
            mine = []
            for r in range(size):
                if turn < len(takes[r]):
                    (peer, _), b, reduced = takes[r][turn]
                    m = costs(r, peer)
                    on_link = max(b * m.byte_time * slow[r], m.gap)
                    mine.append((on_the_way.pop((peer, r)), on_link, r, peer, reduced))
            for at, on_link, r, peer, reduced in sorted(mine, key=lambda m: (m[0] - m[1], m[2])):
                m = costs(r, peer)
                if node[r] != node[peer]:
                    in_free[node[r]] = at = max(at, in_free[node[r]] + on_link)
                elif peer != r:
                    port[r] = at = max(at, port[r] + on_link)
                work = (m.overhead if peer != r else 0) + reduced * c
                busy[r] = max(busy[r], at) + work * slow[r]
        assert not on_the_way
        now = [max(pair) for pair in zip(left, busy, strict=True)]
    return now


@every_algorithm
@pytest.mark.parametrize(("p", "per_node"), [(1, 1), (6, 3), (8, 3)])
@pytest.mark.parametrize("cyclic", [False, True])
def test_every_rank_finishes_as_in_a_simulation_message_by_message(algorithm, p, per_node, cyclic):
    topology = Topology(per_node, NEAR, FAR, cyclic)
    rng = np.random.default_rng(p)
    start, slow = rng.uniform(0, 2e-5, p), rng.uniform(1, 3, p)
    for nbytes in (240, 9240):
        done = simulate(algorithm, p, nbytes, topology, start=start, slow=slow)
        expected = slowly(algorithm, p, nbytes, topology, start, slow)
        assert done.finish == close(np.array(expected))


@every_algorithm
@pytest.mark.parametrize("p", [1, 5, 8])
def test_a_node_for_each_rank_or_one_for_all_is_no_topology(algorithm, p):
    start = np.random.default_rng(p).uniform(0, 2e-5, p)
    sums = Model(FAR.latency, FAR.byte_time, NEAR.reduce_time, FAR.overhead, FAR.gap)
    for topology, model in ((Topology(1, NEAR, sums), sums), (Topology(p, NEAR, FAR), NEAR)):
        there = simulate(algorithm, p, 9240, topology, start=start)
        plain = simulate(algorithm, p, 9240, model, start=start)
        assert there.finish == close(plain.finish)


def test_where_the_ranks_are():
    assert Topology(3).node_of(8).tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert Topology(3, cyclic=True).node_of(8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert Topology(3).nodes(8) == 3
    with pytest.raises(ValueError, match="ranks_per_node=0: needs at least 1"):
        Topology(0)


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_the_ranks_of_a_node_share_its_link(k):
    """Each of k ranks of one node sends n bytes to one of k on another: one link carries all."""

    def across(rank, size):
        yield [
            Send(np.where(rank < size // 2, rank + size // 2, NULL), 0),
            Recv(np.where(rank >= size // 2, rank - size // 2, NULL), 0),
        ]

    n = 10_000
    model = Model(latency=2e-6, byte_time=1e-9, reduce_time=0.0, overhead=3e-7)
    algorithm = made(across, BCAST, lambda size: 1)
    done = simulate(algorithm, 2 * k, n, Topology(k, model, model))
    assert done.seconds == close(2e-6 + 2 * 3e-7 + k * n * 1e-9)
    assert simulate(algorithm, 2 * k, n, model).seconds == close(2e-6 + 2 * 3e-7 + n * 1e-9)


def test_short_messages_wait_for_the_gap_of_the_node():
    def gather(rank, size):
        yield [
            Send(np.where(rank > 0, 0, NULL), 0),
            *(Reduce(np.where(rank == 0, r, NULL), 0) for r in range(1, size)),
        ]

    far = Model(latency=1e-6, byte_time=0.0, reduce_time=0.0, gap=4e-7)
    near, algorithm = Model(reduce_time=0.0), made(gather, REDUCE, lambda size: 1)
    # Rank 8 is alone on its node, and so has its link for itself.
    assert simulate(algorithm, 9, 1, Topology(8, near, far)).finish[8] == close(4e-7)
    # Eight nodes send to one: the first byte of each is there at once.
    done = simulate(algorithm, 9, 1, Topology(1, near, far))
    assert done.seconds == close(1e-6 + 7 * 4e-7)


def test_a_ring_over_nodes_crosses_each_link_once_a_round():
    p, per_node, n = 12, 4, 120_000
    near = Model(latency=1e-7, byte_time=1e-11, reduce_time=0.0)
    far = Model(latency=2e-6, byte_time=1e-9, reduce_time=0.0)
    ring = named("ring", ALLGATHER)
    block = simulate(ring, p, n, Topology(per_node, near, far)).seconds
    cyclic = simulate(ring, p, n, Topology(per_node, near, far, cyclic=True)).seconds
    assert block <= (p - 1) * far.message(n / p) * (1 + 1e-12)
    # Dealt out in turns, every message goes between nodes, and four share a link.
    assert cyclic >= 3.5 * block


def test_a_slow_rank_takes_as_many_times_as_long():
    bcast, n, model = named("binomial", BCAST), 10_000, Model(1e-6, 1e-10, 1e-10, 4e-7)
    done = simulate(bcast, 2, n, model, slow=[3, 1])
    assert done.seconds == close(1e-6 + 4 * 4e-7 + 3 * n * 1e-10)
    # Both links carry it at the pace of the slower one: the receiver's here.
    done = simulate(bcast, 2, n, Model(1e-6, 1e-10, 1e-10), slow=[1, 5])
    assert done.seconds == close(1e-6 + n * 1e-10)
    reduce = named("binomial", REDUCE)
    late = simulate(reduce, 2, n, Model(1e-6, 1e-10, 1e-10), slow=[5, 1])
    assert late.seconds == close(1e-6 + n * 1e-10 + 5 * n * 1e-10)


@pytest.mark.parametrize("slow", [[1, 0], [1, inf], [1, float("nan")], [-1, 1]])
def test_slow_factors_are_positive(slow):
    with pytest.raises(ValueError, match="slow: needs finite numbers above 0"):
        simulate(named("ring"), 2, 8, slow=slow)
    with pytest.raises(ValueError, match=r"slow: has shape \(2,\); needs one number for each of 3"):
        simulate(named("ring"), 3, 8, slow=slow)


def test_late_messages_and_interruptions_add_up():
    p, n, model = 6, 6000, Model(latency=1e-6, byte_time=1e-10, reduce_time=1e-10)
    quiet = simulate(named("ring"), p, n, model).seconds
    late = simulate(named("ring"), p, n, model, noise=Noise(message=1e-5, distribution="constant"))
    assert late.seconds == close(quiet + 10 * 1e-5)
    noise = Noise(interruption=1e-4, distribution="constant")
    assert simulate(named("ring"), p, n, model, noise=noise).seconds == close(quiet + 10 * 1e-4)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_noise_is_seeded_has_its_mean_and_only_delays(distribution):
    def once(rank, size):
        yield [Send((rank + 1) % size, 0), Recv((rank - 1) % size, 1)]

    algorithm, p = made(once, ALLGATHER, lambda size: 2), 20_000
    noise = Noise(message=1e-5, distribution=distribution, seed=1)
    quiet = simulate(algorithm, p, 2000)
    noisy, again = (simulate(algorithm, p, 2000, noise=noise) for _ in range(2))
    assert np.array_equal(noisy.finish, again.finish)
    other = Noise(message=1e-5, distribution=distribution, seed=2)
    different = not np.array_equal(simulate(algorithm, p, 2000, noise=other).finish, noisy.finish)
    assert different == (distribution != "constant")
    delay = noisy.finish - quiet.finish
    assert delay.min() >= 0
    assert delay.mean() == pytest.approx(1e-5, rel=0.05)


def test_interruptions_come_with_their_chance():
    def once(rank, size):
        yield [Send((rank + 1) % size, 0), Recv((rank - 1) % size, 1)]

    algorithm, p = made(once, ALLGATHER, lambda size: 2), 20_000
    noise = Noise(interruption=1e-3, chance=0.01, distribution="constant", seed=3)
    done = simulate(algorithm, p, 2000, noise=noise)
    struck = np.count_nonzero(done.finish > 5e-4)  # itself or the one that it waits for
    assert struck == pytest.approx(2 * 0.01 * p, rel=0.15)
    assert simulate(algorithm, p, 2000, noise=Noise(interruption=1.0, chance=0.0)).seconds < 1e-4


def test_ranks_without_a_part_in_a_round_are_not_interrupted():
    noise = Noise(interruption=1.0, distribution="constant")
    done = simulate(named("binomial", REDUCE), 4, 8, Model(0.0, 0.0, 0.0), noise=noise)
    assert done.finish.tolist() == [2.0, 1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"message": -1e-9}, "message=-1e-09: needs a finite number of seconds, >= 0"),
        ({"interruption": inf}, "interruption=inf: needs a finite number"),
        ({"chance": 1.5}, "chance=1.5: needs a probability, 0 to 1"),
        ({"chance": float("nan")}, "chance=nan: needs a probability, 0 to 1"),
        ({"distribution": "gauss"}, "distribution='gauss': is one of exponential, lognormal"),
        ({"seed": -1}, "seed=-1: needs 0 or more"),
    ],
)
def test_noise_out_of_range(values, message):
    with pytest.raises(ValueError, match=message):
        Noise(**values)


@pytest.mark.parametrize("name", ["recursive_doubling", "rabenseifner", "tree"])
def test_a_hundred_thousand_ranks_on_nodes_in_seconds(name):
    begin = time.process_time()
    topology = Topology(64, Model(3e-7, 5e-11, 7e-11), Model(2e-6, 8e-11))
    noise = Noise(message=1e-7, seed=1)
    done = simulate(named(name), 100_000, 1 << 20, topology, noise=noise)
    assert time.process_time() - begin < 10
    assert 0 < done.seconds < 1
