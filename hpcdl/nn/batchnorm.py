"""Batch normalization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Buffer, Ctx, Params, Reduce, Shape, check_channels
from hpcdl.nn.sums import channel_dot, channel_sum


@dataclass(frozen=True)
class BatchNorm:
    """y = gamma (x - mean) / sqrt(var + eps) + beta for each channel (Ioffe & Szegedy 2015).

    In training, mean and variance are those of the batch, over all axes but the last, in two
    passes. With `reduce` they are those of the global batch: sums and the number of elements are
    added up over ranks, which may hold different numbers of elements, also none. All ranks must
    then call `forward` and `backward` together, as each makes reductions: two and one.

    Parameters: gamma (C,), one; beta (C,), zero. State: mean (C,), zero; var (C,), one: running
    averages, of the unbiased variance, that evaluation uses. Under `reduce` all ranks have the
    same ones; without it, each has its own.

    Attributes:
        momentum: weight of a new batch in the running averages, in 0..1.
        eps: added to the variance, more than 0.
        reduce: sums a 1-D float64 array over ranks in place; None for local statistics.

    Raises:
        ValueError: a value is out of range.
    """

    momentum: float = 0.1
    eps: float = 1e-5
    reduce: Reduce | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum <= 1.0:
            raise ValueError(f"BatchNorm: momentum must be in 0..1, got {self.momentum}")
        if not self.eps > 0.0:
            raise ValueError(f"BatchNorm: eps must be more than 0, got {self.eps}")

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes any shape with the channels last."""
        if len(x_shape) < 1 or x_shape[-1] < 1:
            raise ValueError(
                f"BatchNorm: needs an input of shape (..., channels), got {tuple(x_shape)}"
            )
        channels = x_shape[-1]
        params: Params = {
            "gamma": np.ones(channels),
            "beta": np.zeros(channels),
            "mean": Buffer(np.zeros(channels)),
            "var": Buffer(np.ones(channels)),
        }
        return tuple(x_shape), params

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, ..., C)."""
        check_channels(self, x, 0, params["gamma"].shape[0])
        if not train:
            scale = params["gamma"] / (params["var"] + self.eps) ** 0.5
            y = x * scale
            y += params["beta"] - params["mean"] * scale
            return y, None
        xp = namespace(x)
        sums = xp.concatenate([channel_sum(x), xp.full(1, x.size // x.shape[-1], xp.float64)])
        self._reduce(sums)
        # Where there are no elements at all, the averages stay as they are and y is empty.
        count = xp.maximum(sums[-1:], 1)
        mean = sums[:-1] / count
        xhat = x - mean.astype(x.dtype)
        squares = channel_dot(xhat, xhat)
        self._reduce(squares)
        momentum = self.momentum * xp.minimum(sums[-1:], 1)
        self._average(params["mean"], mean, momentum)
        self._average(params["var"], squares / xp.maximum(count - 1, 1), momentum)
        inverse = ((squares / count + self.eps) ** -0.5).astype(x.dtype)
        xhat *= inverse
        y = xhat * params["gamma"]
        y += params["beta"]
        return y, (xhat, inverse, count)

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`.

        The gradients of gamma and beta are sums over this rank's elements: like all gradients,
        they are summed over ranks later. dx is that of the global statistics.
        """
        xhat, inverse, count = ctx
        xp = namespace(dy)
        sums = xp.concatenate([channel_dot(dy, xhat), channel_sum(dy)])
        channels = inverse.shape[0]
        grads["gamma"][...] = sums[:channels]
        grads["beta"][...] = sums[channels:]
        self._reduce(sums)
        means = (sums / count).astype(dy.dtype)
        scale = params["gamma"] * inverse
        dx = xhat * (-scale * means[:channels])
        dx -= scale * means[channels:]
        dx += dy * scale
        return dx

    def _reduce(self, sums: Array) -> None:
        """Sum over ranks, if there are several."""
        if self.reduce is not None:
            self.reduce(sums)

    @staticmethod
    def _average(running: Array, new: Array, weight: Array) -> None:
        """Move a running average towards a new value, in place."""
        running[...] = running + weight * (new - running)
