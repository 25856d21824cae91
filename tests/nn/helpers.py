"""What several tests of layers need."""

from __future__ import annotations

import numpy as np

from hpcdl.nn import pack


def build(layer, x_shape, samples=4, dtype=np.float64, seed=0):
    """Random parameters (also where init gives constants), input and output derivative."""
    rng = np.random.default_rng(seed)
    y_shape, params = layer.init(rng, x_shape)
    packed = pack(params, dtype)
    packed.vector[...] = rng.standard_normal(packed.vector.size) * 0.5 + 0.1
    x = rng.standard_normal((samples, *x_shape)).astype(dtype)
    dy = rng.standard_normal((samples, *y_shape)).astype(dtype)
    return packed, x, dy


def forward_backward(layer, packed, x, dy):
    """y, dx and the flat gradient of one training pass."""
    grads, tree = packed.grads_like()
    grads[...] = np.nan
    y, ctx = layer.forward(packed.params, x, train=True)
    dx = layer.backward(packed.params, ctx, dy, tree)
    return y, dx, grads


def central_difference(function, x, h=1e-5):
    """The gradient of a scalar function by two evaluations for each element of x."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        old = x[i]
        x[i] = old + h
        above = function()
        x[i] = old - h
        below = function()
        x[i] = old
        gradient[i] = (above - below) / (2 * h)
    return gradient


def relative_error(got, want):
    """Of whole arrays, in the 2-norm."""
    scale = np.linalg.norm(want)
    return np.linalg.norm(got - want) / scale if scale else np.linalg.norm(got)
