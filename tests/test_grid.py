"""Processes on a grid with named axes."""

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from hpcdl.grid import ProcessGrid


@pytest.mark.ranks(4, 6)
def test_neighbours_along_each_axis(comm):
    with ProcessGrid(comm, data=comm.size // 2, height=2) as grid:
        assert (grid.size("data"), grid.size("height")) == (comm.size // 2, 2)
        assert (grid.index("data"), grid.index("height")) == divmod(comm.rank, 2)
        for axis in ("data", "height"):
            along = grid.comm(axis)
            assert along.Get_rank() == grid.index(axis)
            assert along is grid.comm(axis)
        assert grid.comm("height").allgather(comm.rank) == [
            comm.rank // 2 * 2,
            comm.rank // 2 * 2 + 1,
        ]
        assert grid.comm("data").allgather(comm.rank) == list(range(comm.rank % 2, comm.size, 2))
        assert grid.comm("height", "data").allgather(comm.rank) == list(range(comm.size))
        assert grid.comm("height", "data") is grid.comm("data", "height")


@pytest.mark.ranks(4, every_mpi=True)
def test_collectives_run_on_every_communicator_of_a_grid(comm):
    with ProcessGrid(comm, data=2, height=2) as grid:
        for axes in (("data",), ("height",), ("data", "height")):
            along = grid.comm(*axes)
            total = collectives.allreduce(np.full(3, comm.rank), comm=along)
            assert total.tolist() == [sum(along.allgather(comm.rank))] * 3


@pytest.mark.ranks(4)
def test_zero_takes_what_is_left(comm):
    with ProcessGrid(comm, data=0, height=2) as grid:
        assert grid.size("data") == 2
        assert repr(grid) == "ProcessGrid(data=2, height=2)"
    with ProcessGrid(comm, data=2, height=1, channel=0) as grid:
        assert grid.size("channel") == 2
        pair = grid.comm("height", "channel")
        assert pair.allgather(comm.rank) == [comm.rank // 2 * 2, comm.rank // 2 * 2 + 1]


@pytest.mark.ranks(2)
def test_a_closed_grid_has_freed_its_communicators(comm):
    grid = ProcessGrid(comm, data=1, height=2)
    along = grid.comm("height")
    grid.close()
    grid.close()
    assert along == MPI.COMM_NULL
    assert comm.allreduce(1) == 2


@pytest.mark.ranks(2)
def test_many_grids_do_not_use_up_the_communicators(comm):
    for _ in range(3000):  # MPICH has about 2000
        with ProcessGrid(comm, data=1, height=2) as grid:
            grid.comm("height")


@pytest.mark.ranks(1)
@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (
            {"data": 4, "height": 2},
            ValueError,
            "data=4, height=2: is a grid of 8 ranks.*there are 1",
        ),
        ({"data": 0, "height": 2}, ValueError, "data=0, height=2: 2 ranks do not divide the 1"),
        ({"data": 0, "height": 0}, ValueError, "at most one of 0"),
        ({"data": -1}, ValueError, "data=-1: needs 1 or more"),
        ({"data": 1.0}, TypeError, "data=1.0: needs a whole number"),
        ({}, ValueError, "at least one axis"),
    ],
)
def test_what_is_refused(comm, axes, error, message):
    with pytest.raises(error, match=message):
        ProcessGrid(comm, **axes)


@pytest.mark.ranks(1)
def test_an_unknown_axis_is_named(comm):
    with ProcessGrid(comm, data=1, height=1) as grid:
        for ask in (grid.comm, grid.index, grid.size):
            with pytest.raises(ValueError, match="axis 'width': the grid has data, height"):
                ask("width")
        with pytest.raises(ValueError, match="at least one of data, height"):
            grid.comm()
