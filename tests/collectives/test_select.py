import itertools
import re
import time

import pytest

from collectives.collective import ALLREDUCE, COLLECTIVES, REDUCE, Collective
from collectives.explain import explain
from collectives.fit import Fit
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.select import MODELS, NATIVE, NETWORK, PYTHON, Choice, choose, predicted, variants
from collectives.simulate import simulate
from collectives.table import Section, Table, Way, breakpoints_of
from collectives.timeline import Timeline
from collectives.topology import Topology

from .algorithms import ALL

MODEL = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10)
GAPPED = Model(latency=2e-6, byte_time=1e-10, reduce_time=1e-10, overhead=1e-6, gap=3e-6)
LENGTHS = (8, 4096, 65536, 1 << 20, 1 << 26)


def simulated(collective, p, n, model):
    """The simulated time of every algorithm and of each of its settings."""
    return {
        spec: Timeline(REGISTRY.get(collective, spec), p).seconds(n, model)
        for spec in variants(collective, p)
    }


@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
@pytest.mark.parametrize("p", [2, 3, 6])
def test_on_few_ranks_the_choice_is_the_fastest_in_the_simulation(collective, p):
    for n in LENGTHS:
        seconds = simulated(collective, p, n, GAPPED)
        choice = choose(collective, p, n, model=GAPPED)
        assert choice.seconds == pytest.approx(seconds[choice.algorithm], rel=1e-12)
        assert choice.seconds <= min(seconds.values()) * 1.05


@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
@pytest.mark.parametrize("p", [17, 48])
def test_on_many_ranks_it_is_near_that(collective, p):
    for n in (8, 65536, 1 << 26):
        choice = choose(collective, p, n, model=GAPPED)
        seconds = [
            simulate(REGISTRY.get(collective, name), p, n, GAPPED).seconds
            for name in REGISTRY.names(collective)
        ]
        mine = simulate(REGISTRY.get(collective, choice.algorithm), p, n, GAPPED).seconds
        assert mine <= 1.25 * min(seconds)


def test_few_bytes_want_few_rounds_and_many_bytes_little_volume():
    for p in (4, 8, 64):
        few = choose(ALLREDUCE, p, 8, model=NATIVE)
        many = choose(ALLREDUCE, p, 1 << 26, model=NATIVE)
        few, many = (REGISTRY.get(ALLREDUCE, c.algorithm) for c in (few, many))
        assert simulate(few, p, 8).rounds <= p.bit_length()
        sent = simulate(many, p, 1 << 26).nbytes.max()
        assert sent == pytest.approx(2 * (p - 1) / p * (1 << 26), rel=1e-9)


def test_the_faster_executor_is_taken_and_only_one_that_can_be_had():
    for n in LENGTHS:
        assert choose(ALLREDUCE, 4, n).executor == "native"
        assert choose(ALLREDUCE, 4, n, executors=("python",)).executor == "python"
        assert (
            choose(ALLREDUCE, 4, n).seconds < choose(ALLREDUCE, 4, n, executors=("python",)).seconds
        )
    with pytest.raises(ValueError, match=r"executors=\('shared',\): none has a model; there are"):
        choose(ALLREDUCE, 4, 8, executors=("shared",))


def test_tunables_are_tried():
    choice = choose(REDUCE, 4, 1 << 26, model=Model(2e-6, 1e-10, 1e-10))
    assert choice.algorithm == "chain:segments=64"
    assert choose(REDUCE, 4, 1 << 26, model=Model(2e-6, 1e-10, 1e-10)) == choice


def test_with_a_topology_what_stays_inside_a_node_is_worth_more():
    far = Model(latency=2e-6, byte_time=1e-9, reduce_time=0.0, overhead=1e-6)
    topology = Topology(4, Model(3e-7, 2e-11, 2e-11, 2e-7), far)
    n = 1 << 22
    choice = choose(ALLREDUCE, 16, n, model=topology)
    times = {
        a: simulate(REGISTRY.get(ALLREDUCE, a), 16, n, topology).seconds
        for a in REGISTRY.names(ALLREDUCE)
    }
    assert choice.seconds <= min(times.values())
    assert "hierarchical" in choice.algorithm
    assert choose(ALLREDUCE, 1000, n, model=topology) == choose(ALLREDUCE, 1000, n, model=far)


def test_the_same_choice_every_time():
    cases = [(p, n) for p in (*range(1, 8), 31, 300) for n in (0, 8, 1 << 16, 1 << 24)]
    first = [choose(ALLREDUCE, p, n) for p, n in cases]
    choose.cache_clear()
    assert [choose(ALLREDUCE, p, n) for p, n in reversed(cases)] == first[::-1]


@pytest.mark.parametrize("nbytes", [8, 1 << 30])
def test_ten_thousand_ranks_in_about_a_second(nbytes):
    choose.cache_clear()
    begin = time.process_time()
    choose(ALLREDUCE, 10_000, nbytes)
    assert time.process_time() - begin < 3


def test_a_choice_that_was_made_before_costs_nothing():
    table = made_table()
    choose(ALLREDUCE, 4, 4096, table=table)
    begin = time.process_time()
    for _ in range(1000):
        choose(ALLREDUCE, 4, 4096, table=table)
    assert (time.process_time() - begin) / 1000 < 50e-6


def test_a_collective_without_algorithms():
    nothing = Collective("nothing", ALLREDUCE.given, ALLREDUCE.required, ALLREDUCE.sources)
    with pytest.raises(ValueError, match="collective=nothing: no algorithm is registered"):
        choose(nothing, 4, 8)


SIZES = (8, 4096, 1 << 20)
TIMES = {
    Way("recursive_doubling", "native"): (5e-6, 9e-6, 900e-6),
    Way("ring", "native"): (9e-6, 8e-6, 300e-6),
    Way("ring", "python"): (20e-6, 25e-6, 280e-6),
    Way("auto", "shared"): (3e-6, 6e-6, 200e-6),
}


def made_table(times=TIMES, fits=None):
    section = Section("allreduce", 4, "private", 4, SIZES, times, breakpoints_of(SIZES, times))
    return Table("a machine", "MPICH 5.0.2", "2026-01-01", fits or {}, (section,))


def test_a_table_rules():
    table = made_table()
    every = ("shared", "native", "python")
    assert choose(ALLREDUCE, 4, 8, table=table, executors=every) == Choice(
        "auto", "shared", 3e-6, "table"
    )
    # Without the shared executor, and without both that were compiled.
    assert choose(ALLREDUCE, 4, 8, table=table).algorithm == "recursive_doubling"
    assert choose(ALLREDUCE, 4, 1 << 20, table=table) == Choice("ring", "python", 280e-6, "table")
    assert choose(ALLREDUCE, 4, 8, table=table, executors=("python",)).algorithm == "ring"
    # A little beyond the ends, as at the end; further on it has nothing to say.
    assert choose(ALLREDUCE, 4, 1, table=table).algorithm == "recursive_doubling"
    assert choose(ALLREDUCE, 4, 2 * SIZES[-1], table=table).executor == "python"
    assert choose(ALLREDUCE, 4, 2 * SIZES[-1] + 4, table=table).source == "model"


def test_what_a_table_does_not_have_is_predicted():
    table = made_table()
    for kwargs in ({"size": 3}, {"placement": "window"}, {"collective": REDUCE}):
        case = {"collective": ALLREDUCE, "size": 4, "nbytes": 4096} | kwargs
        choice = choose(**case, table=table)
        assert choice == choose(**case)
        assert choice.source == "model"
    assert choose(ALLREDUCE, 4, 8, table=made_table({Way("auto", "shared"): (1, 1, 1)})) == choose(
        ALLREDUCE, 4, 8
    )
    # Elements of another size are better than none.
    assert choose(ALLREDUCE, 4, 8, table=table, itemsize=8).source == "table"


def test_the_model_of_the_table_replaces_the_one_here():
    fits = {"python": Fit(Model(1e-9, 1e-12, 1e-12), 0.1)}
    assert choose(ALLREDUCE, 3, 8, table=made_table(fits=fits)).executor == "python"
    assert choose(ALLREDUCE, 3, 8).executor == "native"


def test_explain_says_which_and_why_and_shows_all():
    table = made_table()
    said = explain(ALLREDUCE, 4, 4096, table=table)
    assert said.choice == choose(ALLREDUCE, 4, 4096, table=table)
    assert said.candidates[0].way == Way("ring", "native")
    assert said.candidates[0].measured == pytest.approx(8e-6)
    assert said.candidates[0].predicted == predicted(ALLREDUCE, "ring", 4, 4096, NATIVE)
    ways = [c.way for c in said.candidates]
    assert ways[:3] == [
        Way("ring", "native"),
        Way("recursive_doubling", "native"),
        Way("ring", "python"),
    ]
    assert Way("auto", "shared") not in ways
    assert set(ways) == {Way(s, e) for s in variants(ALLREDUCE, 4) for e in MODELS}
    title, why, _, head, first, *_ = said.text.split("\n")
    assert title == "allreduce on 4 ranks, 4096 bytes, private buffers"
    assert why == (
        "ring on the native executor: measured with MPICH 5.0.2 on 2026-01-01, 8.00 us here. Next: "
        "recursive_doubling on native, 1.12 x that."
    )
    assert head.split() == ["algorithm", "executor", "predicted", "us", "measured", "us"]
    assert first.split()[:3] == ["*", "ring", "native"]
    assert first.split()[4] == "8.00"


def test_explain_shows_what_only_a_table_knows():
    said = explain(ALLREDUCE, 4, 4096, table=made_table(), executors=("shared", "python"))
    assert said.choice.executor == "shared"
    assert said.candidates[0].predicted is None
    assert said.candidates[0].measured == pytest.approx(6e-6)
    assert any(c.measured is None for c in said.candidates)
    assert " - " in said.text


def test_explain_lets_equals_share_a_line():
    lines = explain(ALLREDUCE, 2, 4096, executors=("python",)).text.splitlines()
    rows = [line.rsplit(maxsplit=2) for line in lines if line.endswith("  -")]
    times = [time for _, time, _ in rows]
    assert len(times) == len(set(times)) > 5
    assert any(re.match(r" +\S+, \S+, \S+, \d+ more +python", line) for line in lines)


def test_explain_shows_whose_time_is_that_of_an_algorithm_that_is_asked_for():
    said = explain(ALLREDUCE, 2, 1 << 20, executors=("shared", "native"), asked=("ring",))
    row = next(line for line in said.text.splitlines() if "ring, " in line)
    assert row.split("  ")[1].strip().startswith("rabenseifner, ring, ")
    more = int(re.search(r", (\d+) more  +native", row)[1])
    assert not any("chain" in line for line in said.text.splitlines())
    price = predicted(ALLREDUCE, "ring", 2, 1 << 20, NATIVE)
    assert said.candidates[0].way == Way("direct", "shared")
    equals = [c for c in said.candidates[1:] if f"{c.predicted:.8f}" == f"{price:.8f}"]
    assert more == len(equals) - 3
    told = f"{1e6 * price:.2f} us predicted, place 1 with {len(equals) - 1} others, of the "
    assert f"{told}{len(said.candidates) - 1} whose times are known." in said.why
    rows = said.whole.splitlines()[-len(said.candidates) :]
    assert [row[3:].split()[:2] for row in rows] == [[*c.way] for c in said.candidates]
    assert "more" not in said.whole.split("measured us")[1]


def test_explain_without_a_table():
    said = explain(ALLREDUCE, 4, 4096)
    assert "on the native executor: there is no table, and the model prices it lowest" in said.why
    assert "latency L 300 ns, bandwidth 1/G 6.25 GB/s, sums 1/c 20 GB/s" in said.why
    assert [c.predicted for c in said.candidates] == sorted(c.predicted for c in said.candidates)
    assert said.candidates[0].predicted == said.choice.seconds
    assert "the table has no such case" in explain(ALLREDUCE, 3, 8, table=made_table()).why
    only = made_table({Way("auto", "shared"): (1, 1, 1)})
    assert "the table has none on these executors" in explain(ALLREDUCE, 4, 8, table=only).why
    assert explain(ALLREDUCE, 300, 8).candidates


def test_every_algorithm_is_priced_on_every_executor_with_a_model():
    assert dict(MODELS) == {"native": NATIVE, "python": PYTHON}
    for a in ALL:
        for p in (1, 5, 20, 200):
            assert predicted(a.collective, a.name, p, 4096, PYTHON) >= 0


def test_on_several_nodes_nobody_is_sent_long_messages_by_all():
    for collective in COLLECTIVES.values():
        for p, n in itertools.product((4, 16, 64, 1000), (64 << 10, 1 << 30)):
            long = n > 32768 * p
            choice = choose(collective, p, n, executors=("native",), network=True)
            assert not (long and re.search(r"\bdirect\b", choice.algorithm))
            assert choice.seconds == pytest.approx(
                predicted(collective, choice.algorithm, p, n, NETWORK)
            )
    one, several = (
        choose(ALLREDUCE, 4, 1 << 24, executors=("native",), network=n) for n in (False, True)
    )
    assert one.algorithm == "direct"
    assert several.algorithm == "rabenseifner"
