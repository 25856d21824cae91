"""From an image to a vector."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from hpcdl.array import Array
from hpcdl.nn.layer import Ctx, Params, Shape


@dataclass(frozen=True)
class Flatten:
    """All dimensions of a sample as one, in C order. Takes any shape."""

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes any shape, gives (product of its lengths,)."""
        return (prod(x_shape),), {}

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; y is a view of x where x is contiguous."""
        return x.reshape(x.shape[0], prod(x.shape[1:])), x.shape if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; dx is a view of dy where dy is contiguous."""
        return dy.reshape(ctx)
