"""GlobalAvgPool with the height split over ranks."""

import numpy as np
import pytest

from hpcdl.nn import GlobalAvgPool
from tests.nn.helpers import build
from tests.nn.ranks import Ranks


def test_mean():
    x = np.arange(24.0).reshape(1, 3, 4, 2)
    y, _ = GlobalAvgPool().forward({}, x, train=False)
    assert y.tolist() == [[11.0, 12.0]]


@pytest.mark.parametrize("cuts", [(3, 5), (1, 7), (0, 4)])
@pytest.mark.parametrize("samples", [0, 4])
def test_three_ranks_equal_one(cuts, samples):
    packed, x, dy = build(GlobalAvgPool(), (8, 3, 2), samples)
    want, ctx = GlobalAvgPool().forward({}, x, train=True)
    want_dx = GlobalAvgPool().backward({}, ctx, dy, {})
    bounds = (0, *cuts, 8)
    # Shares of dy that are not alike: only their sum counts.
    shares = [0.5 * dy, 0.75 * dy, -0.25 * dy]

    def work(rank, reduce):
        layer = GlobalAvgPool(reduce)
        part = x[:, bounds[rank] : bounds[rank + 1]]
        layer.init(np.random.default_rng(0), part.shape[1:])
        y, saved = layer.forward(packed.params, part, train=True)
        return y, layer.backward(packed.params, saved, shares[rank], {})

    results = Ranks(3).run(work)
    for y, _ in results:
        np.testing.assert_allclose(y, want, rtol=1e-13)
        assert np.array_equal(y, results[0][0])
    dx = np.concatenate([part for _, part in results], axis=1)
    np.testing.assert_allclose(dx, want_dx, rtol=1e-12, atol=1e-14)


def test_backward_is_the_adjoint():
    # The sum over ranks of <y_r, dy_r> equals the sum over ranks of <x_r, dx_r>.
    rng = np.random.default_rng(0)
    x = [rng.standard_normal((3, rows, 5, 2)) for rows in (2, 0, 3)]
    dy = [rng.standard_normal((3, 2)) for _ in range(3)]

    def work(rank, reduce):
        layer = GlobalAvgPool(reduce)
        y, ctx = layer.forward({}, x[rank], train=True)
        return np.vdot(y, dy[rank]), np.vdot(x[rank], layer.backward({}, ctx, dy[rank], {}))

    left, right = np.sum(Ranks(3).run(work), axis=0)
    assert abs(left - right) < 1e-13 * abs(left)


def test_a_shared_mean_takes_no_message_more_than_the_sum():
    ranks = Ranks(2)

    def work(rank, reduce):
        layer = GlobalAvgPool(reduce)
        _, ctx = layer.forward({}, np.ones((1, 2, 2, 3)), train=True)
        layer.backward({}, ctx, np.ones((1, 3)), {})

    ranks.run(work)
    assert ranks.reductions == [2, 2]
