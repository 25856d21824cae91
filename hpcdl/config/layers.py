"""The layers that ``[model] layers`` may list: one dataclass for each ``type``, with its own keys.

Adding a layer is one dataclass here and one entry in ``LAYERS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcdl.config.option import NOT_EMPTY, above, between, count, option, required

__all__ = [
    "LAYERS",
    "BatchNorm",
    "Conv",
    "Dense",
    "Flatten",
    "GlobalAvgPool",
    "Layer",
    "MaxPool",
    "ReLU",
    "Residual",
]


@dataclass(frozen=True)
class Layer:
    """What every layer of a configuration is; ``LAYERS`` has the name of each."""


@dataclass(frozen=True)
class Conv(Layer):
    """``type = "conv"``: a square 2-D convolution."""

    channels: int = required("number of output channels", count(1))
    kernel: int = option(3, "height and width of the kernel", count(1))
    stride: int = option(1, "step between outputs", count(1))
    padding: int | None = option(
        None, "zeros added on each side; not given: (kernel - 1) / 2", count(0)
    )
    bias: bool = option(True, "add a trained constant to each channel")


@dataclass(frozen=True)
class Dense(Layer):
    """``type = "dense"``: a matrix product with trained weights."""

    units: int = required("number of outputs", count(1))
    bias: bool = option(True, "add a trained constant to each output")


@dataclass(frozen=True)
class BatchNorm(Layer):
    """``type = "batchnorm"``: normalise each channel by the mean and variance of the batch."""

    statistics: Literal["global", "local"] = option(
        "global", "over the batch of all ranks, or over each rank's own part of it"
    )
    momentum: float = option(
        0.1, "weight of a new batch in the running statistics", between(0, 1, open_low=True)
    )
    eps: float = option(1e-5, "added to the variance", above(0))


@dataclass(frozen=True)
class ReLU(Layer):
    """``type = "relu"``: max(x, 0)."""


@dataclass(frozen=True)
class MaxPool(Layer):
    """``type = "maxpool"``: the largest value of each window."""

    size: int = option(2, "height and width of the window", count(1))
    stride: int | None = option(
        None, "step between windows; not given: size, so that windows touch", count(1)
    )
    padding: int = option(0, "rows and columns added on each side", count(0))


@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    """``type = "globalavgpool"``: the mean of each channel over the image."""


@dataclass(frozen=True)
class Flatten(Layer):
    """``type = "flatten"``: all values of a sample in one row."""


@dataclass(frozen=True)
class Residual(Layer):
    """``type = "residual"``: body(x) + shortcut(x), where an empty shortcut is x itself."""

    body: tuple[Layer, ...] = required("list of layers", NOT_EMPTY)
    shortcut: tuple[Layer, ...] = option((), "list of layers; empty: the input itself")


LAYERS: dict[str, type[Layer]] = {
    "batchnorm": BatchNorm,
    "conv": Conv,
    "dense": Dense,
    "flatten": Flatten,
    "globalavgpool": GlobalAvgPool,
    "maxpool": MaxPool,
    "relu": ReLU,
    "residual": Residual,
}
