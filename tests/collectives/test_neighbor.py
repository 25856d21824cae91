"""Neighbourhood exchange on grids and graphs."""

import itertools

import numpy as np
import pytest

from collectives.adjoint import adjoint
from collectives.algorithms.neighbor import neighbor_allgather, neighbor_alltoall
from collectives.interpret import interpret
from collectives.step import NULL, Recv, Send, compact
from collectives.verify import check_matching

GRIDS = [
    *itertools.product([(1,), (2,), (3,), (7,)], [(True,), (False,)]),
    *(
        (dims, periods)
        for dims in ((1, 1), (1, 2), (2, 2), (3, 2), (3, 4))
        for periods in itertools.product([True, False], repeat=2)
    ),
    ((2, 3, 2), (True, False, True)),
    ((1, 2, 3), (True, True, True)),
]


def neighbors(rank, dims, periods):
    """The ranks below and above in each dimension, as MPI_Cart_shift gives them; -1: none."""
    found = []
    at = np.unravel_index(rank, dims)
    for d, shift in itertools.product(range(len(dims)), (-1, 1)):
        to = list(at)
        to[d] += shift
        inside = 0 <= to[d] < dims[d]
        to[d] %= dims[d]
        found.append(int(np.ravel_multi_index(to, dims)) if inside or periods[d] else NULL)
    return found


def rounds_on(dims, periods, exchange):
    size = int(np.prod(dims))
    around = [neighbors(rank, dims, periods) for rank in range(size)]
    return around, [compact(exchange(a, a, cartesian=True)) for a in around]


@pytest.mark.parametrize(("dims", "periods"), GRIDS)
@pytest.mark.parametrize("exchange", [neighbor_alltoall, neighbor_allgather])
def test_on_a_grid_every_send_meets_its_receive(dims, periods, exchange):
    _, schedule = rounds_on(dims, periods, exchange)
    for turn in (lambda rounds: rounds, adjoint):
        check_matching([turn(rounds)[0] for rounds in schedule], 0, same_blocks=False)


@pytest.mark.parametrize(("dims", "periods"), GRIDS)
def test_what_goes_down_comes_from_above(dims, periods):
    """Block s of a rank lands in block s ^ 1 of its neighbour, in every dimension."""
    around, schedule = rounds_on(dims, periods, neighbor_alltoall)
    size, sides = len(around), 2 * len(dims)
    state = np.zeros((size, 2 * sides), int)
    state[:, :sides] = 1 + np.arange(size * sides).reshape(size, sides)
    after = interpret(schedule, state)
    for rank, side in itertools.product(range(size), range(sides)):
        peer = around[rank][side]
        expected = state[peer, side ^ 1] if peer != NULL else 0
        assert after[rank, sides + side] == expected


@pytest.mark.parametrize(("dims", "periods"), GRIDS)
def test_an_allgather_brings_each_neighbour_s_block(dims, periods):
    around, schedule = rounds_on(dims, periods, neighbor_allgather)
    size, sides = len(around), 2 * len(dims)
    state = np.zeros((size, 1 + sides), int)
    state[:, 0] = 1 + np.arange(size)
    after = interpret(schedule, state)
    for rank, side in itertools.product(range(size), range(sides)):
        peer = around[rank][side]
        assert after[rank, 1 + side] == (1 + peer if peer != NULL else 0)


def test_on_a_graph_the_messages_of_two_ranks_meet_in_order():
    """Rank 0 sends twice to rank 1 and once to itself; rank 1 has other neighbours than 0."""
    sources, destinations = [[0], [0, 0]], [[1, 0, 1], []]
    schedule = [
        compact(neighbor_alltoall(s, d)) for s, d in zip(sources, destinations, strict=True)
    ]
    check_matching([rounds[0] for rounds in schedule], 0, same_blocks=False)
    state = np.zeros((2, 4), int)
    state[0, :3] = 10, 20, 30
    after = interpret(schedule, state)
    assert after[0].tolist() == [10, 20, 30, 20]
    assert after[1].tolist() == [10, 30, 0, 0]


def test_the_steps_of_a_rank():
    assert neighbor_alltoall([4, NULL], [5, 6]) == [
        [Send(5, 0), Send(6, 1), Recv(4, 2), Recv(NULL, 3)]
    ]
    assert neighbor_allgather([4, -2], [5, 6], cartesian=True) == [
        [Send(5, 0), Send(6, 0), Recv(NULL, 2), Recv(4, 1)]
    ]


def test_a_grid_has_two_neighbours_for_each_dimension():
    with pytest.raises(ValueError, match="sources: are 3 ranks; a grid has two for each dimension"):
        neighbor_alltoall([0, 1, 2], [0, 1, 2], cartesian=True)
