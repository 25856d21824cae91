import time
from math import inf, log2

import numpy as np
import pytest

from collectives.blocks import Split
from collectives.closed_form import FORMS, closed_form
from collectives.collective import ALLGATHER, ALLTOALL, BARRIER, BCAST, REDUCE, REDUCE_SCATTER
from collectives.model import Model
from collectives.simulate import simulate
from collectives.step import NULL, Recv, Reduce, Send, Zero, compact, rounds_of
from collectives.verify import ScheduleError

from .algorithms import ALL, every_algorithm, made, named

L, G, C = 3e-6, 2e-10, 7e-11
ABC = Model(latency=L, byte_time=G, reduce_time=C)
LOGGP = Model(latency=L, byte_time=G, reduce_time=C, overhead=4e-7, gap=9e-7)
POWERS = [2, 4, 8, 64, 1024]


def close(value):
    return pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("p", [2, 3, 5, 8, 17, 100, 1000])
@pytest.mark.parametrize("n", [1, 4096, 10**8])
def test_ring(p, n):
    expected = 2 * (p - 1) * (L + n * G / p) + (p - 1) * n / p * C
    assert simulate(named("ring"), p, n, ABC).seconds == close(expected)


@pytest.mark.parametrize("collective", [REDUCE_SCATTER, ALLGATHER])
def test_half_a_ring(collective):
    p, n = 33, 10**6
    sums = (p - 1) * n / p * C if collective is REDUCE_SCATTER else 0
    expected = (p - 1) * (L + n * G / p) + sums
    assert simulate(named("ring", collective), p, n, ABC).seconds == close(expected)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("n", [1, 10**6])
def test_tree(p, n):
    expected = 2 * log2(p) * (L + n * G) + log2(p) * n * C
    assert simulate(named("tree"), p, n, ABC).seconds == close(expected)


@pytest.mark.parametrize("p", POWERS)
def test_binomial(p):
    n = 10**6
    bcast, reduce = named("binomial", BCAST), named("binomial", REDUCE)
    assert simulate(bcast, p, n, ABC).seconds == close(log2(p) * (L + n * G))
    assert simulate(reduce, p, n, ABC).seconds == close(log2(p) * (L + n * G + n * C))


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("n", [1, 10**6])
def test_recursive_doubling(p, n):
    expected = log2(p) * (L + n * G + n * C)
    assert simulate(named("recursive_doubling"), p, n, ABC).seconds == close(expected)


@pytest.mark.parametrize("p", [*POWERS, 3, 5, 6, 7, 12, 33, 100])
@pytest.mark.parametrize("n", [1, 10**6])
def test_rabenseifner(p, n):
    q = 2 ** int(log2(p))
    expected = 2 * L * log2(q) + 2 * n * G * (q - 1) / q + n * C * (q - 1) / q
    if q < p:
        expected += 2 * (L + n * G) + n * C
    assert simulate(named("rabenseifner"), p, n, ABC).seconds == close(expected)


@pytest.mark.parametrize("p", [2, 3, 8, 50])
def test_pairwise(p):
    n = 10**6
    seconds = simulate(named("pairwise", ALLTOALL), p, n, ABC).seconds
    assert seconds == close((p - 1) * (L + n * G / p))


@pytest.mark.parametrize("key", FORMS, ids="-".join)
@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 8, 16, 100])
def test_closed_forms_hold_under_loggp_where_they_are_offered(key, p):
    algorithm = next(a for a in ALL if (a.collective.name, a.name) == key)
    form = closed_form(algorithm, p, 2400, LOGGP)
    assert form is not None or p & (p - 1)
    if form is not None:
        assert simulate(algorithm, p, 2400, LOGGP).seconds == close(form.seconds(p, 2400, LOGGP))


def test_no_closed_form_where_none_holds():
    assert closed_form(named("recursive_doubling"), 6, 100, ABC) is None
    assert closed_form(named("ring"), 4, 0, ABC) is None
    assert closed_form(named("ring"), 4, 100, Model(latency=1e-6, gap=2e-6)) is None


def test_ten_thousand_ranks_in_seconds():
    p, n = 10_000, 100 << 20
    begin = time.process_time()
    seconds = simulate(named("ring"), p, n, ABC).seconds
    assert time.process_time() - begin < 10
    expected = 2 * (p - 1) * (L + n * G / p) + (p - 1) * n / p * C
    assert seconds == pytest.approx(expected, rel=1e-9)


def slowly(algorithm, size, nbytes, model, start):
    """The same model with scalars, message by message, from the schedules that run."""
    parts = algorithm.blocks(size) if algorithm.collective.one_space else size
    nbytes = parts if algorithm.collective is BARRIER else nbytes
    schedules = [rounds_of(algorithm.generate, r, size) for r in range(size)]
    now, port = list(start), [-inf] * size
    for steps in zip(*schedules, strict=True):
        on_the_way = {}
        left, busy = list(now), list(now)
        for r in range(size):
            for (peer, _), b, _ in merged(steps[r], nbytes / parts, sending=True):
                arrives = now[r]
                if peer != r:
                    arrives = left[r] + model.overhead + b * model.byte_time + model.latency
                    left[r] += max(model.overhead + b * model.byte_time, model.gap)
                    busy[r] += model.overhead
                on_the_way[r, peer] = arrives
        for r in range(size):
            for (peer, _), b, reduced in merged(steps[r], nbytes / parts, sending=False):
                at = on_the_way.pop((peer, r))
                if peer != r:
                    port[r] = at = max(at, port[r] + max(b * model.byte_time, model.gap))
                busy[r] = max(busy[r], at) + (model.overhead if peer != r else 0)
                busy[r] += reduced * model.reduce_time
        assert not on_the_way
        now = [max(pair) for pair in zip(left, busy, strict=True)]
    return now


def merged(steps, block, sending):
    """The messages of a round of one rank: peer, bytes, and how many of them are reduced."""
    found = {}
    for s in steps:
        if not isinstance(s, Zero) and isinstance(s, Send) == sending:
            b = s.count * block
            total = found.setdefault((s.peer, sending), [0, 0])
            total[0] += b
            total[1] += b * isinstance(s, Reduce)
    return [(key, *total) for key, total in found.items()]


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 5, 6, 7, 8, 13])
@pytest.mark.parametrize("model", [ABC, LOGGP], ids=["abc", "loggp"])
def test_every_rank_finishes_as_in_a_simulation_message_by_message(algorithm, p, model):
    start = np.random.default_rng(p).uniform(0, 2e-5, p)
    done = simulate(algorithm, p, 9240, model, start=start)
    assert done.finish == close(np.array(slowly(algorithm, p, 9240, model, start)))
    assert done.seconds == done.finish.max()


def neighbours(rank, size):
    """Two messages between the same ranks in one round, both ways, and one to oneself."""
    right, left = (rank + 1) % size, (rank - 1) % size
    for _ in range(3):
        yield [
            Send(right, 0),
            Send(left, 1),
            Send(right, 1, 2),
            Send(rank, 0),
            Recv(right, 3),
            Reduce(left, 4),
            Reduce(left, 3, 2),
            Recv(rank, 5),
            Zero(6),
        ]


@pytest.mark.parametrize("p", [1, 2, 3, 7])
def test_rounds_of_many_messages(p):
    algorithm = made(neighbours, blocks=lambda size: 7)
    start = np.random.default_rng(p).uniform(0, 1e-5, p)
    done = simulate(algorithm, p, 7000, LOGGP, start=start)
    assert done.finish == close(np.array(slowly(algorithm, p, 7000, LOGGP, start)))
    # To the right one message of two steps, to the left one of one; with two ranks they are one.
    assert (done.messages == {1: 0, 2: 3}.get(p, 6)).all()
    assert (done.nbytes == (12_000 if p > 1 else 0)).all()


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 13])
def test_the_generator_says_the_same_for_all_ranks_at_once_as_for_each(algorithm, p):
    together = list(algorithm.generate(np.arange(p), p))

    def pick(index, rank):
        return int(np.broadcast_to(index, (p,))[rank])

    for rank in range(p):
        picked = compact(
            [type(s)(pick(s.peer, rank), pick(s.block, rank), pick(s.count, rank)) for s in steps]
            for steps in together
        )
        assert picked == rounds_of(algorithm.generate, rank, p)


@every_algorithm
@pytest.mark.parametrize("p", [2, 3, 7, 8])
@pytest.mark.parametrize("elements", [0, 1, 5, 1001])
def test_messages_and_bytes_are_those_of_a_run(algorithm, p, elements):
    one_space = algorithm.collective.one_space
    elements *= p if not one_space else 1
    done = simulate(algorithm, p, 4 * elements, element_bytes=4)
    data = np.zeros(elements, np.float32)
    if algorithm.collective is BARRIER:
        data = np.zeros(algorithm.blocks(p), np.uint8)
    blocks = Split(data, algorithm.blocks(p) if one_space else p)
    for rank in range(p):
        sent = {}
        for k, steps in enumerate(rounds_of(algorithm.generate, rank, p)):
            for s in steps:
                if isinstance(s, Send) and s.peer != rank:
                    first = s.block if one_space else s.block % p
                    pieces = [v for b in range(s.count) for v in blocks.views(first + b)]
                    sent[k, s.peer] = sent.get((k, s.peer), 0) + sum(v.nbytes for v in pieces)
        assert done.messages[rank] == sum(b > 0 for b in sent.values())
        assert done.nbytes[rank] == sum(sent.values())


@pytest.mark.parametrize("p", [2, 5, 8])
def test_the_messages_of_a_barrier_are_a_byte_for_each_block(p):
    for algorithm in (a for a in ALL if a.collective is BARRIER):
        plain = simulate(algorithm, p, 0, ABC)
        assert plain.seconds > L
        assert plain.seconds == simulate(algorithm, p, 4096, ABC, element_bytes=8).seconds


def test_nothing_to_send_takes_no_time():
    assert simulate(named("ring"), 8, 0, ABC).seconds == 0
    assert simulate(named("ring"), 1, 100, ABC).seconds == 0


def test_all_late_alike_end_late_alike():
    on_time = simulate(named("ring"), 6, 6000, ABC)
    late = simulate(named("ring"), 6, 6000, ABC, start=[1.0] * 6)
    assert late.finish == pytest.approx(on_time.finish + 1.0, rel=1e-12)


def test_a_late_root_delays_all_and_a_late_leaf_only_itself():
    bcast, n = named("binomial", BCAST), 1000
    on_time = simulate(bcast, 8, n, ABC)
    root = simulate(bcast, 8, n, ABC, start=[1.0] + [0.0] * 7)
    assert root.finish == pytest.approx(on_time.finish + 1.0, rel=1e-12)
    leaf = simulate(bcast, 8, n, ABC, start=[0.0] * 7 + [1.0])
    assert np.array_equal(leaf.finish[:7], on_time.finish[:7])
    assert leaf.finish[7] == 1.0  # the message lies there already


def test_one_late_rank_delays_every_rank_of_an_allreduce():
    for name in ("ring", "tree", "recursive_doubling", "rabenseifner"):
        late = simulate(named(name), 8, 8000, ABC, start=[0, 0, 0, 1.0, 0, 0, 0, 0])
        assert (late.finish >= 1.0).all()
        assert late.seconds <= (1.0 + simulate(named(name), 8, 8000, ABC).seconds) * (1 + 1e-12)


def test_messages_into_one_rank_share_its_link():
    """A linear gather: the root's link is the bottleneck, in one round or in many."""

    def one_round(rank, size):
        sends = [Send(np.where(rank > 0, 0, NULL), 0)]
        yield sends + [Reduce(np.where(rank == 0, r, NULL), 0) for r in range(1, size)]

    def many_rounds(rank, size):
        for r in range(1, size):
            yield [
                Send(np.where(rank == r, 0, NULL), 0),
                Reduce(np.where(rank == 0, r, NULL), 0),
            ]

    model = Model(latency=L, byte_time=G, reduce_time=0.0)
    for generate in (one_round, many_rounds):
        done = simulate(made(generate, REDUCE, lambda size: 1), 9, 1000, model)
        assert done.seconds == close(L + 8 * 1000 * G)


def test_a_message_without_a_partner_is_refused():
    def sends(rank, size):
        yield [Send(np.where(rank == 2, 0, NULL), 0)]

    def waits(rank, size):
        yield []
        yield [Recv(np.where(rank == 2, 1, NULL), 0)]

    def crossed(rank, size):
        yield [Send((rank + 1) % size, 0), Reduce((rank + 1) % size, 0)]

    def nobody(rank, size):
        yield [Send(np.where(rank == 1, size, NULL), 0)]

    with pytest.raises(ScheduleError, match="rank 1, round 0: there is no such peer: 4"):
        simulate(made(nobody), 4, 8)
    with pytest.raises(ScheduleError, match="rank 2, round 0: sends to rank 0, which does not"):
        simulate(made(sends), 4, 8)
    with pytest.raises(ScheduleError, match="rank 2, round 1: waits for rank 1, which does not"):
        simulate(made(waits), 4, 8)
    with pytest.raises(ScheduleError, match="rank 0, round 0: sends to rank 1"):
        simulate(made(crossed), 4, 8)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"size": 0}, "size=0: needs at least 1 rank"),
        ({"nbytes": -1}, "nbytes=-1: needs 0 or more"),
        ({"element_bytes": 3}, "element_bytes=3: does not divide nbytes=8"),
        ({"start": [0.0]}, r"start: has shape \(1,\); needs one number for each of 4"),
    ],
)
def test_arguments_out_of_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        simulate(named("ring"), **({"size": 4, "nbytes": 8} | kwargs))


@pytest.mark.parametrize("value", [-1e-9, inf, float("nan")])
def test_a_model_needs_finite_times(value):
    with pytest.raises(ValueError, match=r"latency=.*: needs a finite number of seconds"):
        Model(latency=value)


@pytest.mark.parametrize("p", [4, 5, 9])
def test_steps_in_any_order_give_the_same_messages(p):
    """Receives in the order of the sends take a shorter way than those in another order."""

    def shifts(order):
        def generate(rank, size):
            ks = range(1, size)
            yield [
                *(Send((rank + k) % size, k - 1) for k in ks),
                *(Reduce((rank - k) % size, k - 1) for k in order(ks)),
            ]

        return made(generate, blocks=lambda size: size - 1)

    model = Model(latency=L, byte_time=G, reduce_time=C, overhead=4e-7, gap=9e-7)
    start = np.random.default_rng(p).uniform(0, 1e-5, p)
    for order in (list, lambda ks: [*ks][::-1]):
        algorithm = shifts(order)
        done = simulate(algorithm, p, 4000 * (p - 1), model, start=start)
        expected = slowly(algorithm, p, 4000 * (p - 1), model, start)
        assert done.finish == close(np.array(expected))
        assert (done.messages == p - 1).all()
