"""The convolutional layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.convolve import convolve, input_gradient, weight_gradient
from hpcdl.nn.layer import Ctx, Params, Shape, check_channels, check_count, he_normal, image_shape
from hpcdl.nn.sums import channel_sum
from hpcdl.nn.window import Padding, Size, Window


@dataclass(frozen=True)
class Conv2d:
    """A 2-D convolution of NHWC images, padded with zeros.

    Parameters: weight (KH, KW, C, channels), He normal; bias (channels,), zero.

    Attributes:
        channels: number of outputs.
        kernel: a number, or (height, width).
        stride: a number, or (height, width).
        padding: a number, or (height, width), or ((top, bottom), (left, right)), such as
            ((0, 0), (1, 1)) for an input that has its rows of padding already; None for as much as
            keeps height and width where the stride is 1.
        bias: False for none, such as before a BatchNorm.

    Raises:
        ValueError: a value is out of range.
        TypeError: a value is not an integer.
    """

    channels: int
    kernel: Size = 3
    stride: Size = 1
    padding: Padding | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        check_count(self, "channels", self.channels)
        _ = self.window  # its values are checked when it is built

    @cached_property
    def window(self) -> Window:
        """Kernel, stride and padding for each axis and side."""
        return Window.of("Conv2d", self.kernel, self.stride, self.padding)

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes (H, W, C)."""
        height, width, inputs = image_shape(self, x_shape)
        shape = (*self.window.output_shape("Conv2d", height, width), self.channels)
        tall, wide = self.window.kernel
        weight = he_normal(rng, (tall, wide, inputs, self.channels), tall * wide * inputs)
        params: Params = {"weight": weight}
        if self.bias:
            params["bias"] = np.zeros(self.channels)
        return shape, params

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, H, W, C)."""
        weight = params["weight"]
        check_channels(self, x, 4, weight.shape[2])
        self.window.output_shape("Conv2d", *x.shape[1:3])
        padded = namespace(x).ascontiguousarray(self.window.pad(x, 0.0))
        y = convolve(padded, weight, params.get("bias"), self.window)
        return y, (padded, x.shape) if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`."""
        padded, (_, height, width, _) = ctx
        weight_gradient(padded, dy, self.window, grads["weight"])
        if self.bias:
            grads["bias"][...] = channel_sum(dy)
        return input_gradient(dy, params["weight"], self.window, height, width)
