import time

import pytest

from collectives.collective import ALLREDUCE, COLLECTIVES, Collective
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.select import choose, lockstep
from collectives.simulate import simulate

from .algorithms import every_algorithm

MODEL = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10)
GAPPED = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10, overhead=1e-6, gap=3e-6)


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("model", [MODEL, GAPPED], ids=["abc", "loggp"])
def test_the_price_is_the_simulated_time_on_powers_of_two(algorithm, p, model):
    for n in (64, 1 << 20):
        seconds = simulate(algorithm, p, n, model).seconds
        assert lockstep(algorithm, p, n, model) == pytest.approx(seconds, rel=1e-12)


@every_algorithm
@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 33, 100])
def test_the_price_is_at_most_twice_the_simulated_time_else(algorithm, p):
    for n in (64, 1 << 20):
        ratio = lockstep(algorithm, p, n, MODEL) / simulate(algorithm, p, n, MODEL).seconds
        assert 1 - 1e-12 <= ratio <= 2


@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
@pytest.mark.parametrize("p", [2, 4, 8, 64])
def test_the_choice_is_the_fastest_in_the_simulation(collective, p):
    for n in (8, 4096, 65536, 1 << 20, 1 << 26):
        seconds = {
            name: simulate(REGISTRY.get(collective, name), p, n, MODEL).seconds
            for name in REGISTRY.names(collective)
        }
        assert seconds[choose(collective, p, n, MODEL)] <= min(seconds.values()) * (1 + 1e-12)


def test_few_bytes_want_few_rounds_and_many_bytes_little_volume():
    for p in (4, 8, 64):
        assert choose(ALLREDUCE, p, 8) == "recursive_doubling"
        assert choose(ALLREDUCE, p, 1 << 26) in ("ring", "rabenseifner")


def test_the_fold_doubles_the_volume_so_that_the_ring_wins_for_many_bytes():
    assert choose(ALLREDUCE, 6, 1 << 26) == "ring"


def test_crossover_of_recursive_doubling_and_rabenseifner():
    # log2(p) (L + n G) = 2 log2(p) L + 2 n G (p - 1) / p, solved for n; at p = 8: 2.4 L / G.
    model = Model(latency=1e-6, byte_time=1e-9, reduce_time=0.0)
    assert choose(ALLREDUCE, 8, 2395, model) == "recursive_doubling"
    assert choose(ALLREDUCE, 8, 2405, model) == "rabenseifner"


def test_the_same_choice_every_time():
    first = [choose(ALLREDUCE, p, n) for p in range(1, 20) for n in (0, 8, 1 << 16, 1 << 24)]
    choose.cache_clear()
    again = [choose(ALLREDUCE, p, n) for p in range(1, 20) for n in (0, 8, 1 << 16, 1 << 24)]
    assert first == again


@pytest.mark.parametrize("nbytes", [8, 1 << 20, 1 << 30])
def test_ten_thousand_ranks_in_less_than_a_second(nbytes):
    choose.cache_clear()
    begin = time.process_time()
    choose(ALLREDUCE, 10_000, nbytes)
    assert time.process_time() - begin < 1


def test_a_collective_without_algorithms():
    nothing = Collective("nothing", ALLREDUCE.given, ALLREDUCE.required, ALLREDUCE.sources)
    with pytest.raises(ValueError, match="collective=nothing: no algorithm is registered"):
        choose(nothing, 4, 8)
