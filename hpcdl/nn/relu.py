"""The rectified linear unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Ctx, Params, Shape


@dataclass(frozen=True)
class ReLU:
    """y = max(x, 0); the derivative at 0 is 0. Takes any shape."""

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes any shape and gives the same."""
        return tuple(x_shape), {}

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; `ctx` is where x > 0, as bool."""
        return namespace(x).maximum(x, 0), x > 0 if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`."""
        # A product with a mask is several times faster than a choice by `where`.
        return dy * ctx
