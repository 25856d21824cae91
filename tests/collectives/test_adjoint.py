"""The dot product test: <F x, y> = <x, F* y>, exact in integers."""

import numpy as np
import pytest

from collectives.adjoint import adjoint, adjoint_of
from collectives.interpret import interpret
from collectives.step import Recv, Reduce, Send, Zero, rounds_of
from collectives.verify import check_matching

from .algorithms import every_algorithm, named


def matrix(schedule, size, blocks):
    """The map of a schedule as a matrix, column by column from unit vectors."""
    units = np.eye(size * blocks, dtype=np.int64).reshape(size, blocks, -1)
    return interpret(schedule, units).reshape(size * blocks, -1)


@every_algorithm
@pytest.mark.parametrize("p", range(1, 10))
def test_dot_product(algorithm, p):
    blocks = algorithm.blocks(p)
    forward = [rounds_of(algorithm.generate, r, p) for r in range(p)]
    backward = [adjoint(rounds) for rounds in forward]
    rng = np.random.default_rng(p)
    x, y = rng.integers(-9, 10, (2, p, blocks, 5))
    fx, fy = interpret(forward, x), interpret(backward, y)
    assert p == 1 or not np.array_equal(fx, x)
    assert np.sum(fx * y) == np.sum(x * fy)


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_the_adjoint_is_the_transposed_matrix(algorithm, p):
    blocks = algorithm.blocks(p)
    forward = [rounds_of(algorithm.generate, r, p) for r in range(p)]
    backward = [rounds_of(adjoint_of(algorithm.generate), r, p) for r in range(p)]
    assert np.array_equal(matrix(backward, p, blocks), matrix(forward, p, blocks).T)


@every_algorithm
@pytest.mark.parametrize("p", [1, 3, 6, 8])
def test_the_adjoint_of_the_adjoint_is_the_map_itself(algorithm, p):
    forward = [rounds_of(algorithm.generate, r, p) for r in range(p)]
    twice = [adjoint(adjoint(rounds)) for rounds in forward]
    x = np.random.default_rng(p).integers(-9, 10, (p, algorithm.blocks(p), 3))
    assert np.array_equal(interpret(twice, x), interpret(forward, x))


@every_algorithm
def test_in_the_adjoint_every_send_meets_its_receive(algorithm):
    backward = [rounds_of(adjoint_of(algorithm.generate), r, 6) for r in range(6)]
    for k, steps in enumerate(zip(*backward, strict=True)):
        check_matching(steps, k, same_blocks=algorithm.collective.one_space)


def test_vectorized_and_scalar_adjoints_agree():
    generate, p = adjoint_of(named("ring").generate), 5
    together = list(generate(np.arange(p), p))
    for rank in range(p):
        alone = rounds_of(generate, rank, p)
        for ours, mine in zip(together, alone, strict=True):
            for s, t in zip(ours, mine, strict=True):
                assert type(s) is type(t)
                assert s.block[rank] == t.block
                assert isinstance(s, Zero) or s.peer[rank] == t.peer


def test_steps_are_turned_round():
    assert adjoint([[Send(1, 2, 3)], [Recv(4, 5, 6), Reduce(7, 8)], [Zero(9)]]) == [
        [Zero(9)],
        [Send(4, 5, 6), Zero(5, 6), Send(7, 8, 1)],
        [Reduce(1, 2, 3)],
    ]
