"""Whole networks on grids of samples and rows equal one rank on the whole batch."""

import numpy as np
import pytest

from hpcdl.grid import ProcessGrid
from hpcdl.nn import (
    BatchNorm,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool,
    MaxPool,
    ReLU,
    Residual,
    Sequential,
    pack,
    softmax_cross_entropy,
)
from hpcdl.parallel import spatial
from hpcdl.parallel.spatial import decompose, pointwise
from tests.parallel.tools import check_equal


def block(reduce, channels, stride=1):
    body = [
        Conv2d(channels, 3, stride, 1, bias=False),
        BatchNorm(reduce=reduce),
        ReLU(),
        Conv2d(channels, 3, bias=False),
        BatchNorm(reduce=reduce),
    ]
    return Sequential(body)


def averaging(reduce):
    shortcut = Sequential([Conv2d(5, 1, 2, bias=False), BatchNorm(reduce=reduce)])
    layers = [
        *(Conv2d(4, 3), BatchNorm(reduce=reduce), ReLU(), MaxPool(3, 2, 1)),
        *(Residual(block(reduce, 4)), ReLU()),
        *(Residual(block(reduce, 5, 2), shortcut), ReLU()),
        *(GlobalAvgPool(), Dense(6), BatchNorm(reduce=reduce), ReLU(), Dense(3)),
    ]
    return Sequential(layers)


def flattening(reduce):
    layers = [
        *(Conv2d(4, 5, 2), BatchNorm(reduce=reduce), ReLU(), MaxPool()),
        *(Conv2d(3, 3, 1, ((1, 1), (1, 0))), Flatten(), Dense(6), ReLU(), Dense(3)),
    ]
    return Sequential(layers)


def gathering_in_a_branch(reduce):
    """One branch is whole, the other is split: the block as a whole is gathered for."""
    return Sequential([Conv2d(1, 3), Residual(Sequential([Flatten(), Dense(63), Image()]))])


class Image:
    """Back to an image of 9 x 7."""

    def init(self, rng, x_shape):
        return (9, 7, 1), {}

    def forward(self, params, x, *, train, rng=None):
        return x.reshape(-1, 9, 7, 1), None

    def backward(self, params, ctx, dy, grads):
        return dy.reshape(dy.shape[0], 63)


def fully_convolutional(reduce):
    return Sequential([Conv2d(3, 3), ReLU(), Residual(Conv2d(3, 5)), MaxPool(2, 1, 1)])


NETWORKS = [averaging, flattening, gathering_in_a_branch, fully_convolutional]
HEIGHTS_BY_RANKS = {1: [1], 2: [1, 2], 3: [1, 3], 4: [2, 4], 6: [2, 3]}


@pytest.mark.ranks(1, 2, 3, 4, 6, every_mpi=True)
@pytest.mark.parametrize("make", NETWORKS)
def test_a_network_equals_one_rank(comm, make):
    for height in HEIGHTS_BY_RANKS[comm.size]:
        with ProcessGrid(comm, data=0, height=height) as grid:
            for rows, samples in ((9, 4), (9, 5), (9, 1), (16, 3)):
                if make is not gathering_in_a_branch or rows == 9:
                    check_equal(make, grid, (rows, 7, 2), samples)


@pytest.mark.ranks(4)
def test_the_loss_scaled_by_batch_and_replicas_sums_to_the_gradient_of_the_mean(comm):
    """The rule of the module's docstring, from the loss on."""
    labels = np.array([0, 2, 1])
    network = flattening(None)
    packed = pack(network.init(np.random.default_rng(1), (9, 7, 2))[1], "float64")
    x = np.random.default_rng(2).standard_normal((3, 9, 7, 2))
    wanted, tree = packed.grads_like()
    logits, ctx = network.forward(packed.params, x, train=True)
    loss, _, dlogits = softmax_cross_entropy(logits, labels)
    network.backward(packed.params, ctx, dlogits / 3, tree)

    grads, tree = packed.grads_like()
    with spatial(network, comm, (9, 7, 2)) as split:
        scale = 1 / (3 * split.replicas)
        logits, ctx = split.forward(packed.params, x[:, split.rows], train=True)
        mine, _, dlogits = softmax_cross_entropy(logits, labels)
        split.backward(packed.params, ctx, dlogits * scale, tree)
    np.testing.assert_allclose(comm.allreduce(mine * scale), loss / 3, rtol=1e-12)
    np.testing.assert_allclose(comm.allreduce(grads), wanted, rtol=1e-12, atol=1e-14)
    assert np.abs(grads - wanted).max() > 1e-3  # a share is not the gradient


@pytest.mark.ranks(3)
def test_microbatches_in_flight(comm):
    """Two forward passes, then two backward passes: as a pipeline does."""
    network = averaging(None)
    packed = pack(network.init(np.random.default_rng(1), (9, 7, 2))[1], "float64")
    rng = np.random.default_rng(3)
    xs, dys = rng.standard_normal((2, 2, 9, 7, 2)), rng.standard_normal((2, 2, 3))
    with spatial(network, comm, (9, 7, 2)) as split:
        grads, tree = packed.grads_like()

        def backward(ctx, dy):
            dx = split.backward(packed.params, ctx, dy, tree)
            return dx, grads.copy()

        def forward(x):
            return split.forward(packed.params, x[:, split.rows], train=True)[1]

        apart = [backward(forward(x), dy) for x, dy in zip(xs, dys, strict=True)]
        ctxs = [forward(x) for x in xs]
        flying = [backward(ctx, dy) for ctx, dy in zip(ctxs, dys, strict=True)]
    for (dx, gradient), (other_dx, other) in zip(apart, flying, strict=True):
        np.testing.assert_array_equal(dx, other_dx)
        np.testing.assert_array_equal(gradient, other)


@pytest.mark.ranks(2)
def test_what_is_refused_before_any_message(comm):
    class Odd(Image):
        pass

    with pytest.raises(
        TypeError, match=r"layer 1: Odd: has no rule .* rules for BatchNorm, Conv2d"
    ):
        spatial(Sequential([ReLU(), Odd()]), comm, (9, 7, 1))
    with pytest.raises(ValueError, match=r"layer 0: body: Conv2d: a window of \(9, 9\)"):
        spatial(Sequential([Residual(Conv2d(1, 9, padding=0))]), comm, (8, 8, 1))
    with spatial(ReLU(), comm, (9, 7, 1)) as split:
        assert split.replicas == 1
        with pytest.raises(
            ValueError, match=r"x_shape=\(8, 7, 1\): was decomposed for \(9, 7, 1\)"
        ):
            split.init(np.random.default_rng(0), (8, 7, 1))
        said = r"x: needs shape \(samples, \d, 7, 1\), that is rows .* \(rank \d of 2\)"
        with pytest.raises(ValueError, match=said):
            split.forward({}, np.zeros((1, 9, 7, 1)), train=True)


@pytest.mark.ranks(2)
def test_another_layer_gets_a_rule_by_registration(comm):
    class Double:
        def init(self, rng, x_shape):
            return x_shape, {}

        def forward(self, params, x, *, train, rng=None):
            return 2 * x, None

        def backward(self, params, ctx, dy, grads):
            return 2 * dy

    decompose.register(Double, pointwise)
    with ProcessGrid(comm, height=2, data=1) as grid:
        check_equal(lambda _: Sequential([Conv2d(2), Double(), Flatten()]), grid, (5, 4, 1), 2)
