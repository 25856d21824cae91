"""The fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Ctx, Params, Shape, check_channels, check_count, he_normal
from hpcdl.nn.sums import channel_sum


@dataclass(frozen=True)
class Dense:
    """y = x W + b.

    Parameters: weight (C, K), He normal; bias (K,), zero.

    Attributes:
        units: number of outputs K.
        bias: False for no b, such as before a BatchNorm.

    Raises:
        ValueError: `units` is less than 1.
        TypeError: `units` is not an integer.
    """

    units: int
    bias: bool = True

    def __post_init__(self) -> None:
        check_count(self, "units", self.units)

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes (C,), gives (K,)."""
        if len(x_shape) != 1 or x_shape[0] < 1:
            raise ValueError(
                f"Dense: needs a flat input of shape (channels,), got {tuple(x_shape)}; "
                f"a Flatten or GlobalAvgPool before it makes one of an image"
            )
        params: Params = {"weight": he_normal(rng, (x_shape[0], self.units), x_shape[0])}
        if self.bias:
            params["bias"] = np.zeros(self.units)
        return (self.units,), params

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, C), y (N, K)."""
        weight = params["weight"]
        check_channels(self, x, 2, weight.shape[0])
        y = namespace(x).matmul(x, weight)
        if self.bias:
            y += params["bias"]
        return y, x if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; dy (N, K), dx (N, C)."""
        xp = namespace(dy)
        xp.matmul(ctx.T, dy, out=grads["weight"])
        if self.bias:
            grads["bias"][...] = channel_sum(dy)
        return xp.matmul(dy, params["weight"].T)
