"""BatchNorm: the definition, running averages, and statistics over ranks."""

import numpy as np
import pytest

from hpcdl.nn import BatchNorm, pack
from tests.nn.helpers import build
from tests.nn.ranks import Ranks


def test_output_is_the_definition():
    layer = BatchNorm(eps=1e-3)
    packed, x, _ = build(layer, (5, 4, 3))
    y, _ = layer.forward(packed.params, x, train=True)
    for c in range(3):
        values = x[..., c].ravel().tolist()
        mean = sum(values) / len(values)
        var = sum((v - mean) ** 2 for v in values) / len(values)
        want = (x[..., c] - mean) / (var + 1e-3) ** 0.5
        want = want * packed.params["gamma"][c] + packed.params["beta"][c]
        np.testing.assert_allclose(y[..., c], want, rtol=1e-12, atol=1e-12)


def test_running_averages_and_evaluation():
    layer = BatchNorm(momentum=0.25)
    packed, x, _ = build(layer, (2,), samples=5)
    mean, var = np.zeros(2), np.ones(2)
    for k in range(3):
        batch = x * (k + 1) + k
        layer.forward(packed.params, batch, train=True)
        mean = 0.75 * mean + 0.25 * batch.mean(axis=0)
        var = 0.75 * var + 0.25 * batch.var(axis=0, ddof=1)
    np.testing.assert_allclose(packed.params["mean"], mean, rtol=1e-13)
    np.testing.assert_allclose(packed.params["var"], var, rtol=1e-13)
    y, _ = layer.forward(packed.params, x, train=False)
    gamma, beta = packed.params["gamma"], packed.params["beta"]
    want = gamma * (x - mean) / np.sqrt(var + 1e-5) + beta
    np.testing.assert_allclose(y, want, rtol=1e-12, atol=1e-12)


def test_one_element_has_no_variance():
    layer = BatchNorm()
    packed, x, _ = build(layer, (3,), samples=1)
    y, _ = layer.forward(packed.params, x, train=True)
    np.testing.assert_allclose(y[0], packed.params["beta"], rtol=1e-12)
    np.testing.assert_allclose(packed.params["var"], np.full(3, 0.9), rtol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_two_passes_keep_a_small_variance_on_a_large_mean(offset):
    layer = BatchNorm(momentum=1.0, eps=1e-12)
    packed, _, _ = build(layer, (1,))
    deviations = np.array([[-3.0], [-1.0], [1.0], [3.0]])
    layer.forward(packed.params, deviations + offset, train=True)
    np.testing.assert_allclose(packed.params["var"], [20 / 3], rtol=1e-12)


def test_float32_sums_stay_right_in_a_large_batch():
    layer = BatchNorm(momentum=1.0)
    x = (np.random.default_rng(0).standard_normal((64, 64, 64, 2)) + 3).astype(np.float32)
    packed = pack(layer.init(np.random.default_rng(0), (64, 64, 2))[1], np.float32)
    layer.forward(packed.params, x, train=True)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(packed.params["mean"], exact.mean(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(packed.params["var"], exact.var(axis=(0, 1, 2)), rtol=1e-5)


@pytest.mark.parametrize("shape", [(3,), (4, 2, 3)])
@pytest.mark.parametrize("cuts", [(3, 5), (1, 8), (4, 4), (0, 8), (0, 0)])
def test_three_ranks_equal_one(shape, cuts):
    # Cuts with two equal numbers, or with one at an end, leave a rank or two without samples.
    whole = BatchNorm()
    packed, x, dy = build(whole, shape, samples=8)
    start = packed.vector.copy()
    grads, tree = packed.grads_like()
    y, ctx = whole.forward(packed.params, x, train=True)
    dx = whole.backward(packed.params, ctx, dy, tree)

    bounds = (0, *cuts, 8)
    ranks = Ranks(3)

    def work(rank, reduce):
        here = slice(bounds[rank], bounds[rank + 1])
        layer = BatchNorm(reduce=reduce)
        mine, _, _ = build(layer, shape)
        mine.vector[...] = start
        flat, views = mine.grads_like()
        part, saved = layer.forward(mine.params, x[here], train=True)
        gradient = layer.backward(mine.params, saved, dy[here], views)
        return part, gradient, flat, mine.buffers

    parts = ranks.run(work)
    assert ranks.reductions == [3, 3, 3]  # as the docstring tells
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(np.concatenate([p[0] for p in parts]), y, **close)
    np.testing.assert_allclose(np.concatenate([p[1] for p in parts]), dx, **close)
    np.testing.assert_allclose(sum(p[2] for p in parts), grads, **close)
    for part in parts:
        np.testing.assert_allclose(part[3], packed.buffers, **close)
        assert np.array_equal(part[3], parts[0][3])


def test_local_statistics_do_differ():
    # The negative control of the test above.
    layer = BatchNorm()
    packed, x, _ = build(layer, (3,), samples=8)
    whole, _ = layer.forward(packed.params, x, train=True)
    part, _ = layer.forward(packed.params, x[:3], train=True)
    assert np.abs(part - whole[:3]).max() > 1e-2


def test_ranks_that_are_all_empty():
    def work(rank, reduce):
        layer = BatchNorm(reduce=reduce)
        packed, x, dy = build(layer, (2, 3), samples=0)
        before = packed.buffers.copy()
        grads, tree = packed.grads_like()
        _, ctx = layer.forward(packed.params, x, train=True)
        dx = layer.backward(packed.params, ctx, dy, tree)
        return dx.shape == x.shape and not grads.any() and np.array_equal(packed.buffers, before)

    assert Ranks(2).run(work) == [True, True]
