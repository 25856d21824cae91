"""What each algorithm computes, in numbers: numpy has the right ones; each rank has other data."""

import functools
import itertools

import numpy as np
import pytest

from collectives.collective import ALLGATHER, ALLREDUCE, BCAST, REDUCE, REDUCE_SCATTER
from collectives.interpret import interpret
from collectives.op import MAX, Op
from collectives.registry import REGISTRY
from collectives.step import rotated, rounds_of
from collectives.verify import variants, verify

from .algorithms import ALL, every_algorithm, named

SIZES = range(1, 18)
ROOTED = [a for a in ALL if a.collective.name in ("bcast", "reduce", "gather", "scatter")]
ELEMENTS = 3


def inputs(size, blocks, seed=0):
    """Whole numbers, so that every order of a sum has one value; all different."""
    rng = np.random.default_rng(seed)
    return rng.permutation(size * blocks * ELEMENTS).reshape(size, blocks, ELEMENTS) + 1


def run(algorithm, state, root=0, op=None):
    size = len(state)
    generate = rotated(algorithm.generate, root)
    schedule = [rounds_of(generate, rank, size) for rank in range(size)]
    return interpret(schedule, state) if op is None else interpret(schedule, state, op)


def check(algorithm, before, after, root=0, total=np.sum):
    """Hold each rank's blocks against what the collective means, as MPI defines it."""
    size, blocks, _ = before.shape
    kind = algorithm.collective.name
    each = blocks // size
    parts = [slice(((r - root) % size) * each, ((r - root) % size + 1) * each) for r in range(size)]
    if kind == "allreduce":
        assert (after == total(before, axis=0)).all()
    elif kind == "reduce":
        assert (after[root] == total(before, axis=0)).all()
    elif kind == "bcast":
        assert (after == before[root]).all()
    elif kind == "reduce_scatter":
        for r in range(size):
            assert (after[r, parts[r]] == total(before, axis=0)[parts[r]]).all()
    elif kind in ("allgather", "barrier"):
        for r in range(size):
            assert (after[:, parts[r]] == before[r, parts[r]]).all()
    elif kind == "gather":
        for r in range(size):
            assert (after[root, parts[r]] == before[r, parts[r]]).all()
    elif kind == "scatter":
        for r in range(size):
            assert (after[r, parts[r]] == before[root, parts[r]]).all()
    else:
        assert kind == "alltoall"
        assert (after[:, size : 2 * size] == before[:, :size].transpose(1, 0, 2)).all()


@every_algorithm
def test_the_result_is_that_of_numpy(algorithm):
    for size in SIZES:
        before = inputs(size, algorithm.blocks(size), size)
        check(algorithm, before, run(algorithm, before))


@pytest.mark.parametrize("algorithm", ROOTED, ids=[f"{a.collective.name}-{a.name}" for a in ROOTED])
def test_every_rank_can_be_the_root(algorithm):
    for size in (1, 2, 3, 5, 8):
        for root in range(size):
            before = inputs(size, algorithm.blocks(size), root)
            check(algorithm, before, run(algorithm, before, root), root)


REDUCING = [a for a in ALL if a.collective in (ALLREDUCE, REDUCE, REDUCE_SCATTER)]


@pytest.mark.parametrize(
    "algorithm", REDUCING, ids=[f"{a.collective.name}-{a.name}" for a in REDUCING]
)
def test_another_operation_than_the_sum(algorithm):
    for size in (1, 2, 6, 7):
        before = inputs(size, algorithm.blocks(size), size)
        check(algorithm, before, run(algorithm, before, op=MAX), total=np.max)


def product(xp, a, b, out):
    """Products of 2 by 2 matrices, which do not commute."""
    out[...] = (a.reshape(-1, 2, 2) @ b.reshape(-1, 2, 2)).reshape(out.shape)


@pytest.mark.parametrize("collective", [REDUCE, ALLREDUCE, REDUCE_SCATTER])
@pytest.mark.parametrize("window", [1, 2, 4, 32])
def test_linear_reductions_keep_the_order_of_ranks(collective, window):
    algorithm = named(f"linear:window={window}", collective)
    for size in range(1, 10):
        blocks = algorithm.blocks(size)
        before = np.random.default_rng(size).integers(-3, 4, (size, blocks, 4))
        after = run(algorithm, before, op=Op("product", product))
        matrices = before.reshape(size, blocks, 2, 2)
        expected = functools.reduce(np.matmul, matrices).reshape(blocks, 4)
        for rank in range(size):
            if collective is REDUCE_SCATTER:
                assert (after[rank, rank] == expected[rank]).all()
            elif collective is ALLREDUCE or rank == 0:
                assert (after[rank] == expected).all()


@every_algorithm
def test_every_value_of_every_tunable_is_proved(algorithm):
    for size in (1, 2, 3, 6, 7, 8):
        for variant in variants(algorithm, size):
            assert verify(variant, size).algorithm == variant.spec
            before = inputs(size, variant.blocks(size), size)
            check(variant, before, run(variant, before))


TUNED = [
    "chain:segments=3",
    "double_tree:segments=5",
    "ring:segments=3",
    "direct:window=3",
    "linear:window=2",
    "torus:width=5",
    "torus:width=100",
]


@pytest.mark.parametrize("spec", TUNED)
def test_other_values_than_a_tuner_tries(spec):
    for size in (1, 2, 7, 12, 20):
        assert verify(named(spec), size).rounds >= (size > 1)


@pytest.mark.parametrize("radix", [2, 3, 4, 5, 7, 16, 100])
@pytest.mark.parametrize("kind", ["allgather", "alltoall"])
def test_any_radix(kind, radix):
    algorithm = next(a for a in ALL if (a.collective.name, a.name) == (kind, "bruck"))
    for size in (1, 2, 3, 5, 8, 9, 16, 20, 27):
        verify(algorithm.tuned(radix=radix), size)


HIERARCHICAL = [a for a in ALL if a.name == "hierarchical"]


@pytest.mark.parametrize("algorithm", HIERARCHICAL, ids=[a.collective.name for a in HIERARCHICAL])
@pytest.mark.parametrize(("node", "size"), [(3, 6), (3, 7), (1, 3), (9, 4)])
def test_any_algorithm_inside_and_any_across(algorithm, node, size):
    """Equal groups, unequal ones, groups of one, and a single one."""
    names = [algorithm.tunables[key].choices() for key in ("inner", "outer")]
    assert all("hierarchical" not in choices for choices in names)
    for inner, outer in itertools.product(*names):
        verify(algorithm.tuned(node=node, inner=inner, outer=outer), size)


def test_hierarchical_allreduce_has_the_algorithms_that_there_are():
    tunables = named("hierarchical").tunables
    assert set(tunables["outer"].choices()) == {*REGISTRY.names(ALLREDUCE)} - {"hierarchical"}
    assert set(tunables["inner"].choices()) == (
        {*REGISTRY.names(REDUCE_SCATTER), *REGISTRY.names(ALLGATHER)} - {"hierarchical"}
    )


@pytest.mark.parametrize("inner", ["recursive_halving", "recursive_doubling", "bruck"])
def test_hierarchical_allreduce_finds_an_inner_half_with_as_few_rounds(inner):
    """8 ranks in a group take 3 rounds each way, 4 groups take 2."""
    tuned = named("hierarchical").tuned(node=8, inner=inner, outer="recursive_doubling")
    assert len(list(tuned.generate(0, 32))) == 3 + 2 + 3


def test_a_rank_has_children_in_one_tree_only():
    """Which is what makes two trees as fast as one ring."""
    for size in range(2, 40):
        senders = [set(), set()]
        algorithm = named("double_tree:segments=1", BCAST)
        for rank in range(1, size):
            for steps in rounds_of(algorithm.generate, rank, size):
                for s in steps:
                    if type(s).__name__ == "Send":
                        senders[s.block].add(rank)
        assert not senders[0] & senders[1]


def test_the_ring_of_the_torus_is_as_square_as_can_be():
    for size, width in ((12, 3), (16, 4), (17, 1), (18, 3), (100, 10)):
        assert verify(named("torus"), size).rounds == 2 * (width - 1) + 2 * (size // width - 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("chain:segments=0", "segments=0: needs at least 1"),
        ("bruck:radix=1", "radix=1: needs at least 2"),
        ("torus:width=-1", "width=-1: needs at least 0"),
        ("hierarchical:inner=tree", "inner=tree: is one of"),
        ("hierarchical:outer=hierarchical", "outer=hierarchical: is one of"),
        ("hierarchical:node=0", "node=0: needs at least 1"),
        ("swing:segments=2", "segments=2: allreduce swing has no such tunable; it has: none"),
    ],
)
def test_tunables_out_of_range(spec, message):
    collective = ALLGATHER if spec.startswith("bruck") else ALLREDUCE
    with pytest.raises(ValueError, match=message):
        REGISTRY.get(collective, spec)
