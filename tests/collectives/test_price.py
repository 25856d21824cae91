import time

import numpy as np
import pytest

from collectives.collective import ALLREDUCE, BARRIER, REDUCE
from collectives.model import Model
from collectives.price import Profile, cheapest, price
from collectives.simulate import simulate
from collectives.step import NULL, Recv, Reduce, Send, Zero
from collectives.timeline import Timeline

from .algorithms import ALL, every_algorithm, made, named

MODEL = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10)
GAPPED = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10, overhead=1e-6, gap=3e-6)
both_models = pytest.mark.parametrize("model", [MODEL, GAPPED], ids=["abc", "loggp"])


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 8])
@both_models
def test_the_time_on_few_ranks_is_the_simulated_one(algorithm, p, model):
    timeline = Timeline(algorithm, p)
    for n in (0, 7, 4096, 1 << 20):
        seconds = simulate(algorithm, p, n, model).seconds
        assert timeline.seconds(n, model) == pytest.approx(seconds, rel=1e-12, abs=1e-30)


def several(rank, size):
    """Several steps to the same peer, and one to oneself."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for _ in range(2):
        yield [
            Send(right, 0),
            Send(left, 1),
            Send(right, 1, 2),
            Send(rank, 0),
            Recv(right, 3),
            Reduce(left, 4),
            Reduce(left, 3, 2),
            Reduce(rank, 5),
            Zero(6),
        ]


@pytest.mark.parametrize("p", [1, 2, 3, 7])
@both_models
def test_steps_to_the_same_peer_are_one_message(p, model):
    algorithm = made(several, blocks=lambda size: 7)
    seconds = simulate(algorithm, p, 7000, model).seconds
    assert Timeline(algorithm, p).seconds(7000, model) == pytest.approx(seconds, rel=1e-12)


def test_a_limit_ends_the_walk():
    ring = Timeline(named("ring"), 8)
    whole = ring.seconds(8000, MODEL)
    assert ring.seconds(8000, MODEL, limit=whole) == whole
    assert whole / 4 < ring.seconds(8000, MODEL, limit=whole / 4) < whole / 2


@every_algorithm
@pytest.mark.parametrize("p", [17, 64])
def test_the_price_on_many_ranks_is_near_the_simulated_time(algorithm, p):
    # Where many ranks send to one, those ahead go on, which the price does not see.
    most = 8 if algorithm.name == "linear" else 2
    for n in (64, 1 << 20):
        ratio = price(algorithm, p, n, GAPPED) / simulate(algorithm, p, n, GAPPED).seconds
        assert 0.5 <= ratio <= most


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "recursive_doubling", "direct"])
def test_the_price_is_the_simulated_time_where_all_ranks_do_alike(name):
    for p in (32, 64, 256):
        for n in (64, 1 << 20):
            seconds = simulate(named(name), p, n, GAPPED).seconds
            assert price(named(name), p, n, GAPPED) == pytest.approx(seconds, rel=1e-9)


def test_rounds_in_which_no_rank_looked_at_takes_part_count_too():
    # A chain of many ranks: the root does something in the first rounds only, or in the last ones.
    chain = made(lambda rank, size: down(rank, size, range(size - 1)), blocks=lambda size: 1)
    back = made(lambda rank, size: down(rank, size, range(size - 2, -1, -1)), REDUCE, lambda s: 1)
    p, n = 3000, 1000
    assert price(chain, p, n, MODEL) == pytest.approx((p - 1) * MODEL.message(n), rel=1e-9)
    assert price(back, p, n, MODEL) == pytest.approx((p - 1) * MODEL.message(n), rel=1e-9)


@pytest.mark.parametrize("segments", [1, 8, 64])
@pytest.mark.parametrize("p", [33, 64, 500])
def test_in_a_pipeline_the_sums_count_of_ranks_that_are_not_looked_at(segments, p):
    for collective in (REDUCE, ALLREDUCE):
        algorithm = named(f"chain:segments={segments}", collective)
        ratio = price(algorithm, p, 1 << 22, MODEL) / simulate(algorithm, p, 1 << 22, MODEL).seconds
        assert 0.9 < ratio < 1.5


def down(rank, size, rounds):
    for k in rounds:
        yield [
            Send(np.where(rank == k, k + 1, NULL), 0),
            Recv(np.where(rank == k + 1, k, NULL), 0),
        ]


def test_a_barrier_has_a_price_without_bytes():
    for algorithm in (a for a in ALL if a.collective is BARRIER):
        assert Timeline(algorithm, 8).seconds(0, MODEL) > MODEL.latency
        assert price(algorithm, 100, 0, MODEL) > MODEL.latency
    assert price(named("ring"), 100, 0, MODEL) == 0


def test_the_cheapest_is_the_first_of_the_cheapest():
    options = [(Profile(named(a), 64), MODEL) for a in ("tree", "ring", "ring", "rabenseifner")]
    for n in (8, 1 << 16, 1 << 28):
        prices = [price(named(a), 64, n, MODEL) for a in ("tree", "ring", "ring", "rabenseifner")]
        i, seconds = cheapest(options, n)
        assert seconds == min(prices)
        assert i == prices.index(seconds)


def test_a_schedule_is_walked_only_as_far_as_it_matters():
    def endless(rank, size):
        while True:
            yield [Send((rank + 1) % size, 0), Recv((rank - 1) % size, 0)]

    endless_one = Profile(made(endless, ALLREDUCE, lambda size: 1), 1000)
    options = [(endless_one, MODEL), (Profile(named("tree"), 1000), MODEL)]
    i, seconds = cheapest(options, 1000)
    assert i == 1
    assert seconds == price(named("tree"), 1000, 1000, MODEL)
    assert not endless_one.complete


@pytest.mark.parametrize("nbytes", [8, 1 << 30])
def test_all_algorithms_on_ten_thousand_ranks_in_about_a_second(nbytes):
    for collective in {a.collective.name: a.collective for a in ALL}.values():
        begin = time.process_time()
        mine = [a for a in ALL if a.collective is collective]
        cheapest([(Profile(a, 10_000), MODEL) for a in mine], nbytes)
        assert time.process_time() - begin < 3
