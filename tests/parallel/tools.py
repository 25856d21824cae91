"""One training pass of a network on a grid of ranks, and on one rank with the whole batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.blocks import share
from hpcdl.parallel import SumOver, spatial
from tests.nn.helpers import build, forward_backward

TOLERANCE = 1e-12


@dataclass
class Pass:
    """What came of a pass: outputs and derivatives of this rank's part, gradients of all."""

    y: Any
    dx: Any
    grads: Any
    evaluated: Any
    buffers: Any


def alone(make, x_shape, samples, seed=0):
    """The pass on one rank, and what goes into it."""
    layer = make(None)
    packed, x, dy = build(layer, x_shape, samples, seed=seed)
    before = packed.buffers.copy()
    evaluated, _ = layer.forward(packed.params, x, train=False)
    y, dx, grads = forward_backward(layer, packed, x, dy)
    return (packed, before, x, dy), Pass(y, dx, grads, evaluated, packed.buffers.copy())


def together(make, grid, x_shape, given):
    """The pass on a grid; returns it, and where this rank's part lies in the whole."""
    packed, before, x, dy = given
    packed.buffers[...] = before
    kept = x.copy(), dy.copy()
    over_data = SumOver(grid.comm("data"))
    network = make(over_data)
    with spatial(network, grid.comm("height"), x_shape) as layer:
        y_shape, params = layer.init(np.random.default_rng(0), x_shape)
        assert same_tree(params, network.init(np.random.default_rng(0), x_shape)[1])
        samples = slice(*share(len(x), grid.index("data"), grid.size("data")))
        out = slice(None)
        if layer.replicas == 1:
            out = slice(*share(y_shape[0], grid.index("height"), grid.size("height")))
        mine = np.ascontiguousarray(x[samples, layer.rows])
        evaluated, _ = layer.forward(packed.params, mine, train=False)
        y, dx, grads = forward_backward(layer, packed, mine, dy[samples, out] / layer.replicas)
        grid.comm("data", "height").Allreduce(MPI.IN_PLACE, grads)
        result = Pass(y, dx, grads, evaluated, packed.buffers.copy())
        where = samples, out, layer.rows
    over_data.close()
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(dy, kept[1])
    return result, where


def check_equal(make, grid, x_shape, samples, seed=0):
    """Check that a pass on a grid equals that on one rank.

    ``make(reduce)`` gives the network; ``reduce`` is for the statistics of a BatchNorm.
    """
    given, want = alone(make, x_shape, samples, seed)
    got, (rows, out, inputs) = together(make, grid, x_shape, given)
    label = f"{make(None)} on {x_shape}, {samples} samples, {grid}"
    close(got.y, want.y[rows, out], want.y, f"y: {label}")
    close(got.evaluated, want.evaluated[rows, out], want.evaluated, f"evaluation: {label}")
    close(got.dx, want.dx[rows, inputs], want.dx, f"dx: {label}")
    close(got.grads, want.grads, want.grads, f"gradients: {label}")
    close(got.buffers, want.buffers, want.buffers, f"state: {label}")


def close(got, want, scale, label):
    """Relative to the largest value of the whole array, as sums in another order are."""
    assert got.shape == want.shape, label
    largest = float(np.abs(scale).max(initial=0.0))
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * largest, err_msg=label)


def same_tree(a, b):
    """Whether two trees of parameters have the same keys and values."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_tree(a[k], b[k]) for k in a)
    value, other = getattr(a, "value", a), getattr(b, "value", b)
    return type(a) is type(b) and np.array_equal(value, other)
