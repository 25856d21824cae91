"""The mean over the whole image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Ctx, Params, Reduce, Shape, image_shape
from hpcdl.nn.sums import position_sum


@dataclass(frozen=True)
class GlobalAvgPool:
    """The mean over height and width.

    The image may be split over ranks by height, also unevenly. Each rank then gets the mean over
    the whole image, so y is replicated, and what follows is computed alike on each of them. The
    sum of parts is a sum-allreduce, and its adjoint is a sum-allreduce again: the `dy` of a rank
    is its *share*, and the sum of the shares over these ranks is the derivative of the loss. With
    P ranks, each with the derivative of the whole loss at hand, a share is a P-th of it.

    Attributes:
        reduce: sums a 1-D array in place over the ranks that hold the parts of these images; None
            where the image is whole. The number of positions is summed along with the values.
    """

    reduce: Reduce | None = None

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes (H, W, C), gives (C,)."""
        height, width, channels = image_shape(self, x_shape)
        if self.reduce is None and height * width < 1:
            raise ValueError(f"GlobalAvgPool: needs at least one position, got {tuple(x_shape)}")
        return (channels,), {}

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, H, W, C) or a part of its height, y (N, C)."""
        xp = namespace(x)
        samples, height, width, channels = x.shape
        sums = xp.empty(samples * channels + 1, xp.float64)
        sums[:-1] = position_sum(x).reshape(-1)
        sums[-1] = height * width
        if self.reduce is not None:
            self.reduce(sums)
        y = (sums[:-1] / sums[-1:]).astype(x.dtype).reshape(samples, channels)
        return y, (x.shape, sums[-1:]) if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; dy (N, C), this rank's share; dx (N, H, W, C)."""
        shape, count = ctx
        xp = namespace(dy)
        each = dy.reshape(-1).astype(xp.float64)
        if self.reduce is not None:
            self.reduce(each)
        dx = xp.empty(shape, dy.dtype)
        dx[...] = (each / count).reshape(shape[0], 1, 1, shape[3])
        return dx
