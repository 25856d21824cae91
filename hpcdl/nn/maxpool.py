"""The maximum of a window."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Ctx, Params, Shape, image_shape
from hpcdl.nn.window import Padding, Size, Window, overlap


@dataclass(frozen=True)
class MaxPool:
    """The largest value of each window of an NHWC image, padded with minus infinity.

    The gradient goes to the first of several largest, row by row. The window is taken apart: first
    along the width, then along the height. The first maximum of a row, and then the first row
    that has it, are just the first maximum of the window.

    Attributes:
        size: of the window: a number, or (height, width).
        stride: a number, or (height, width); None for the size of the window.
        padding: a number, or (height, width), or ((top, bottom), (left, right)); each less than
            the size of the window, so that no window sees padding alone. An input that has its
            rows of padding already takes ((0, 0), (left, right)).

    Raises:
        ValueError: a value is out of range.
        TypeError: a value is not an integer.
    """

    size: Size = 2
    stride: Size | None = None
    padding: Padding = 0

    def __post_init__(self) -> None:
        for size, sides in zip(self.window.kernel, self.window.padding, strict=True):
            if max(sides) >= size:
                raise ValueError(
                    f"MaxPool: padding must be less than the size {self.size}, got {self.padding}"
                )

    @cached_property
    def window(self) -> Window:
        """Size, stride and padding for each axis and side."""
        stride = self.size if self.stride is None else self.stride
        return Window.of("MaxPool", self.size, stride, self.padding, argument="size")

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; takes (H, W, C)."""
        height, width, channels = image_shape(self, x_shape)
        return (*self.window.output_shape("MaxPool", height, width), channels), {}

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, H, W, C)."""
        window = self.window
        rows, columns = window.output_shape("MaxPool", *x.shape[1:3])
        padded = window.pad(x, -float("inf"))
        y, across = _pool(padded, 2, window, columns, train)
        y, down = _pool(y, 1, window, rows, train)
        return y, (x.shape[1:3], across, down) if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`."""
        (height, width), across, down = ctx
        top = self.window.padding[0][0]
        dx = _unpool(dy, down, 1, self.window, height)
        if across is not None:
            across = across[:, top : top + height]
        return _unpool(dx, across, 2, self.window, width)


def _pool(
    x: Array, axis: int, window: Window, count: int, train: bool
) -> tuple[Array, Array | None]:
    """The maximum along one axis of a padded image, and which tap of the window has it.

    The taps are known only if `train`, and if there is more than one.
    """
    xp = namespace(x)
    size, stride = window.kernel[axis - 1], window.stride[axis - 1]
    taps = [x[_at(axis, slice(t, t + (count - 1) * stride + 1, stride))] for t in range(size)]
    if size == 1:
        return taps[0], None
    y = xp.maximum(taps[0], taps[1])
    index = (taps[1] > taps[0]).view(xp.uint8) if train else None
    for t in range(2, size):
        if index is not None:
            later = (taps[t] > y).astype(xp.uint8 if size <= 256 else xp.int32)
            index = xp.maximum(index, later * t)
        xp.maximum(y, taps[t], out=y)
    return y, index


def _unpool(dy: Array, index: Array | None, axis: int, window: Window, length: int) -> Array:
    """Each value of `dy` at its tap along one axis of an image without padding."""
    xp = namespace(dy)
    size, stride = window.kernel[axis - 1], window.stride[axis - 1]
    before, count = window.padding[axis - 1][0], dy.shape[axis]
    shape = (*dy.shape[:axis], length, *dy.shape[axis + 1 :])
    if index is None and stride == 1 and before == 0:
        return dy
    tiles = index is not None and stride == size and before == 0 and count * size == length
    dx = (xp.empty if tiles else xp.zeros)(shape, dy.dtype)
    for t in range(size):
        there, here = overlap(t, stride, before, length, 0, count)
        part = dx[_at(axis, here)]
        if index is None:
            part += dy
        elif tiles:
            xp.multiply(dy, index == t, out=part)
        else:
            part += dy[_at(axis, there)] * (index[_at(axis, there)] == t)
    return dx


def _at(axis: int, places: slice) -> tuple[slice, ...]:
    """The index of `places` along `axis` and of everything else."""
    return (*(slice(None),) * axis, places)
