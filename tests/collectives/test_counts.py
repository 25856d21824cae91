"""Messages and bytes against their closed forms, counted in the schedules themselves."""

from fractions import Fraction

import pytest

from collectives.closed_form import FORMS, closed_form
from collectives.collective import ALLGATHER, ALLREDUCE, ALLTOALL, BARRIER, BCAST, REDUCE
from collectives.count_formulas import COUNTS
from collectives.counts import counts
from collectives.messages import sent_by
from collectives.model import Model
from collectives.simulate import simulate
from collectives.verify import variants

from .algorithms import ALL, every_algorithm, made, named

MODELS = [
    Model(latency=3e-6, byte_time=2e-10, reduce_time=7e-11),
    Model(latency=3e-6, byte_time=2e-10, reduce_time=7e-11, overhead=4e-7, gap=9e-7),
    Model(latency=1e-6, byte_time=1e-10, reduce_time=3e-10, overhead=1e-6),
    Model(latency=1e-6, byte_time=0, reduce_time=1e-9, overhead=1e-6, gap=5e-7),
]


def check(algorithm, size):
    """Return how many of the four numbers are known."""
    sent, want = sent_by(algorithm, size), counts(algorithm, size)
    found = max(sent.messages), sum(sent.messages), max(sent.volume), sum(sent.volume)
    wanted = want.most_messages, want.messages, want.most_volume, want.volume
    for number, formula in zip(found, wanted, strict=True):
        assert formula is None or number == formula, (algorithm.spec, size, found, wanted)
    return sum(formula is not None for formula in wanted)


@every_algorithm
def test_messages_and_bytes_are_the_closed_forms_for_1_to_33_ranks(algorithm):
    known = [check(algorithm, size) for size in range(1, 34)]
    if algorithm.name == "hierarchical":
        assert max(known) >= 2
    else:
        partly = (algorithm.collective, algorithm.name) == (ALLREDUCE, "double_tree")
        assert set(known) == {2 if partly else 4}


@every_algorithm
def test_so_they_are_with_other_tunables(algorithm):
    for size in (1, 2, 3, 6, 9, 12):
        for variant in variants(algorithm, size):
            check(variant, size)


def test_every_formula_belongs_to_an_algorithm():
    keys = {(a.collective.name, a.name) for a in ALL}
    assert set(COUNTS) == {key for key in keys if key[1] != "hierarchical"}
    assert set(FORMS) < keys


@pytest.mark.parametrize(
    ("spec", "collective", "p", "expected"),
    [
        # From the papers, in numbers: messages of the busiest rank and of all, bytes so.
        ("ring", ALLREDUCE, 5, (8, 40, Fraction(8, 5), 8)),
        ("rabenseifner", ALLREDUCE, 8, (6, 48, Fraction(14, 8), 14)),
        ("bruck", ALLTOALL, 8, (3, 24, Fraction(12, 8), 12)),
        ("bruck", ALLGATHER, 9, (4, 36, Fraction(8, 9), 8)),
        ("dissemination", BARRIER, 6, (3, 18, Fraction(5, 6), 5)),
        ("binomial", BCAST, 16, (4, 15, 4, 15)),
        ("double_tree:segments=4", REDUCE, 9, (8, 64, 1, 8)),
        ("torus:width=4", ALLREDUCE, 12, (10, 120, Fraction(22, 12), 22)),
        (
            "hierarchical:node=4,inner=ring,outer=ring",
            ALLREDUCE,
            12,
            (10, 120, Fraction(11, 6), 22),
        ),
    ],
)
def test_some_numbers(spec, collective, p, expected):
    want = counts(named(spec, collective), p)
    assert (want.most_messages, want.messages, want.most_volume, want.volume) == expected
    assert check(named(spec, collective), p) == 4


def test_nothing_is_known_of_an_algorithm_of_somebody_else():
    assert counts(made(named("ring").generate), 4).messages is None
    assert closed_form(made(named("ring").generate), 4, 8, MODELS[0]) is None


@every_algorithm
def test_the_time_is_the_closed_form(algorithm):
    barrier = algorithm.collective is BARRIER
    offered = 0
    for size in (1, 2, 3, 4, 5, 7, 8, 11, 16, 33):
        for a in [algorithm, *(variants(algorithm, size) if size in (3, 8) else ())]:
            for model in MODELS:
                for nbytes in (24, 10**6):
                    form = closed_form(a, size, nbytes, model)
                    if form is not None:
                        offered += 1
                        found = simulate(a, size, 0 if barrier else nbytes, model).seconds
                        wanted = form.seconds(size, nbytes, model)
                        assert found == pytest.approx(wanted, rel=1e-12), (a.spec, size, form.text)
    assert offered or (algorithm.collective, algorithm.name) in {
        (ALLREDUCE, "chain"),
        *((c, "double_tree") for c in (ALLREDUCE, BCAST, REDUCE)),
    }
