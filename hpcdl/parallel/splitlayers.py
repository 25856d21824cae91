"""Layers with a movement of rows in front of them. Parameters are those of the layer itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.exchange import Exchange
from hpcdl.nn.layer import Ctx, Layer, Params, Shape


@dataclass(frozen=True)
class Windowed:
    """A sliding window on this rank's rows: its halo comes first, then the layer.

    Attributes:
        layer: the layer for whole samples.
        local: the same with the padding of this rank; None where the rank has no output rows.
        exchange: brings the halo.
        x_row: (W, C) of the input.
        y_row: (W', C') of the output.
    """

    layer: Layer
    local: Layer | None
    exchange: Exchange
    x_row: Shape
    y_row: Shape

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes and gives shapes of global samples."""
        return self.layer.init(rng, x_shape)

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, h, W, C) and y (N, h', W', C') are this rank's rows."""
        x = self.exchange.forward(x)
        if self.local is None:
            return namespace(x).empty((x.shape[0], 0, *self.y_row), x.dtype), None
        return self.local.forward(params, x, train=train, rng=rng)

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; the gradients are sums over this rank's output rows."""
        if self.local is None:
            for gradient in grads.values():
                gradient[...] = 0
            dx = namespace(dy).empty((dy.shape[0], 0, *self.x_row), dy.dtype)
        else:
            dx = self.local.backward(params, ctx, dy, grads)
        return self.exchange.backward(dx)


@dataclass(frozen=True)
class Gathered:
    """A layer for whole samples, which are gathered first: each rank then does the same work.

    In the backward pass each rank has its share of the derivative; they are summed on the way.

    Attributes:
        layer: the layer for whole samples.
        exchange: gathers them.
    """

    layer: Layer
    exchange: Exchange

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes and gives shapes of global samples."""
        return self.layer.init(rng, x_shape)

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, h, ...) is this rank's rows, y is whole."""
        return self.layer.forward(params, self.exchange.forward(x), train=train, rng=rng)

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; dy and the gradients are this rank's shares."""
        return self.exchange.backward(self.layer.backward(params, ctx, dy, grads))
