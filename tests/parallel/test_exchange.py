"""Movements of rows over MPI: against the whole array, and by the dot product."""

import numpy as np
import pytest

from collectives.algorithms.ring import allgather
from collectives.blocks import share
from collectives.traffic import Traffic
from hpcdl.exchange import SHAPES, Exchange
from hpcdl.halo import gather, halo, reach


def spans(length, parts):
    return [share(length, part, parts) for part in range(parts)]


def window(height, kernel, stride, size):
    """Rows that each rank needs for its outputs of a window with padding kernel // 2."""
    outputs = (height + 2 * (kernel // 2) - kernel) // stride + 1
    return [reach(s, height, kernel, stride, kernel // 2).rows for s in spans(outputs, size)]


def movements(comm):
    """Every kind of movement, with the rows that each rank ends with."""
    for height in range(1, 10):
        owned = spans(height, comm.size)
        for kernel, stride in ((1, 1), (3, 1), (5, 2), (7, 3), (1, 2)):
            needed = window(height, kernel, stride, comm.size)
            yield halo(comm.rank, owned, needed), owned[comm.rank], needed[comm.rank], height
        everything = (0, height)
        yield gather(comm.rank, owned, allgather), owned[comm.rank], everything, height


@pytest.mark.ranks(1, 2, 3, 4, 5)
def test_rows_arrive_and_the_backward_pass_is_the_adjoint(comm):
    for movement, mine, needed, height in movements(comm):
        everyone = np.random.default_rng(height)
        own = np.random.default_rng([comm.rank, height])
        exchange = Exchange(movement, comm)
        for samples in (2, 3, 2, 0):
            whole = everyone.standard_normal((samples, height, 2, 3))
            x = whole[:, slice(*mine)]
            got = exchange.forward(x)
            np.testing.assert_array_equal(got, whole[:, slice(*needed)])
            y = own.standard_normal(got.shape)
            kept = y.copy()
            back = exchange.backward(y)
            np.testing.assert_array_equal(y, kept)
            np.testing.assert_array_equal(x, whole[:, slice(*mine)])
            assert back.shape == x.shape
            left, right = comm.allreduce(np.array([np.vdot(got, y), np.vdot(x, back)]))
            assert left == pytest.approx(right, rel=1e-12, abs=1e-12)
        exchange.close()


@pytest.mark.ranks(3)
def test_several_microbatches_may_be_in_flight(comm):
    owned = spans(7, 3)
    needed = window(7, 3, 1, 3)
    exchange = Exchange(halo(comm.rank, owned, needed), comm)
    wholes = [np.random.default_rng(i).standard_normal((2, 7, 3)) for i in range(3)]
    ys = [exchange.forward(whole[:, slice(*owned[comm.rank])]) for whole in wholes]
    dys = [np.full_like(y, i) for i, y in enumerate(ys)]
    dxs = [exchange.backward(dy) for dy in dys]
    for i, (whole, y, dx) in enumerate(zip(wholes, ys, dxs, strict=True)):
        np.testing.assert_array_equal(y, whole[:, slice(*needed[comm.rank])])
        readers = [sum(a <= row < b for a, b in needed) for row in range(*owned[comm.rank])]
        np.testing.assert_array_equal(dx[0, :, 0], i * np.array(readers))
    exchange.close()


@pytest.mark.ranks(2)
def test_plans_are_kept_and_bounded_in_number(comm):
    exchange = Exchange(halo(comm.rank, spans(4, 2), [(0, 4), (0, 4)]), comm)
    for samples in [*range(3 * SHAPES), 1, 2]:
        x = np.full((samples, 2), float(comm.rank))
        assert exchange.forward(x).tolist() == [[0, 0, 1, 1]] * samples
    assert len(exchange._bound._kept) == SHAPES
    exchange.close()
    exchange.close()
    assert not exchange._bound._kept


@pytest.mark.ranks(2)
def test_dtypes_are_kept(comm):
    exchange = Exchange(halo(comm.rank, spans(4, 2), [(0, 3), (1, 4)]), comm)
    for dtype in ("float16", "float32", "float64"):
        x = np.full((1, 2, 2), 1 + comm.rank, dtype)
        y = exchange.forward(x)
        assert y.dtype == exchange.backward(y).dtype == dtype
    exchange.close()


@pytest.mark.ranks(2)
def test_a_wrong_number_of_rows_is_refused_before_any_message(comm):
    traffic = Traffic()
    exchange = Exchange(halo(comm.rank, spans(4, 2), [(0, 3), (1, 4)]), comm, traffic=traffic)
    where = rf"\(rank {comm.rank} of 2\)"
    with pytest.raises(ValueError, match=rf"x: needs .*2 rows.*got \(1, 3\) {where}"):
        exchange.forward(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=rf"dy: needs .*3 rows.*got \(1, 2\) {where}"):
        exchange.backward(np.zeros((1, 2)))
    assert traffic.messages == 0
