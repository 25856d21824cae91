"""The geometry of a window that slides over an image: of a convolution or of a pooling.

Output o of an axis sees the inputs o * stride - before + t for t in 0..kernel-1, where `before` is
the padding on the near side.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TypeAlias

from hpcdl.array import Array, namespace

Pair: TypeAlias = tuple[int, int]
Size: TypeAlias = int | Pair
"""One number for both axes, or (height, width)."""
Padding: TypeAlias = int | Pair | tuple[Pair, Pair]
"""One number, or (height, width), or ((top, bottom), (left, right))."""


@dataclass(frozen=True)
class Window:
    """Kernel, stride and padding, each for height and width.

    Attributes:
        kernel: (height, width) of the window.
        stride: (height, width) of a step.
        padding: ((top, bottom), (left, right)).
    """

    kernel: Pair
    stride: Pair
    padding: tuple[Pair, Pair]

    @classmethod
    def of(
        cls,
        name: str,
        kernel: Size,
        stride: Size,
        padding: Padding | None,
        argument: str = "kernel",
    ) -> Window:
        """Build a window from what a user gives.

        Args:
            name: of the layer, for the messages of errors.
            kernel: at least 1.
            stride: at least 1.
            padding: at least 0; None for as many as keep the length where the stride is 1:
                (kernel - 1) // 2 before and kernel // 2 behind.
            argument: what the layer calls the kernel, for the messages of errors.

        Returns:
            The window.

        Raises:
            ValueError: a value is out of range or has another form.
            TypeError: a value is not an integer.
        """
        kernels = _pair(name, argument, kernel, 1)
        if padding is None:
            height, width = kernels
            pads = (((height - 1) // 2, height // 2), ((width - 1) // 2, width // 2))
        elif not isinstance(padding, tuple | list):
            pads = (_pair(name, "padding", padding, 0),) * 2
        elif len(padding) == 2:
            top, left = (_pair(name, "padding", side, 0) for side in padding)
            pads = (top, left)
        else:
            raise ValueError(
                f"{name}: padding needs a number, (height, width) or ((top, bottom), "
                f"(left, right)), got {padding!r}"
            )
        return cls(kernels, _pair(name, "stride", stride, 1), pads)

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return self.padding != ((0, 0), (0, 0))

    def padded_shape(self, height: int, width: int) -> Pair:
        """Height and width of an image with its padding."""
        (top, bottom), (left, right) = self.padding
        return height + top + bottom, width + left + right

    def output_shape(self, name: str, height: int, width: int) -> Pair:
        """Height and width of the output.

        Args:
            name: of the layer, for the message of an error.
            height: of the input, without padding.
            width: of the input, without padding.

        Returns:
            The number of positions of the window along each axis.

        Raises:
            ValueError: the window is larger than the padded input.
        """
        padded = self.padded_shape(height, width)
        if padded[0] < self.kernel[0] or padded[1] < self.kernel[1]:
            raise ValueError(
                f"{name}: a window of {self.kernel} needs an input at least as large, got "
                f"{(height, width)}, with padding {padded}"
            )
        rows, columns = (
            (size - kernel) // stride + 1
            for size, kernel, stride in zip(padded, self.kernel, self.stride, strict=True)
        )
        return rows, columns

    def pad(self, x: Array, fill: float) -> Array:
        """`x` with its padding.

        Args:
            x: (N, H, W, C).
            fill: the value of the padding.

        Returns:
            (N, H + top + bottom, W + left + right, C); `x` itself where there is no padding.
        """
        if not self.padded:
            return x
        samples, height, width, channels = x.shape
        (top, _), (left, _) = self.padding
        padded = namespace(x).full(
            (samples, *self.padded_shape(height, width), channels), fill, x.dtype
        )
        padded[:, top : top + height, left : left + width] = x
        return padded


def overlap(
    tap: int, stride: int, before: int, size: int, start: int, stop: int
) -> tuple[slice, slice]:
    """Where one tap of a window meets the input, and not the padding, along one axis.

    Args:
        tap: number of the tap, 0..kernel-1.
        stride: of the window.
        before: padding on the near side.
        size: length of the input without padding.
        start: first output to look at.
        stop: one behind the last output to look at.

    Returns:
        The outputs whose tap lies on the input, counted from `start`; and the inputs that they
        meet, of the same number.
    """
    shift = tap - before
    first = max(start, -(shift // stride))
    last = max(first, min(stop, (size - 1 - shift) // stride + 1))
    inputs = slice(first * stride + shift, (last - 1) * stride + shift + 1, stride)
    return slice(first - start, last - start), inputs if last > first else slice(0, 0)


def _pair(name: str, argument: str, value: Size, least: int) -> Pair:
    """`value` for each axis or side, checked."""
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if not all(isinstance(number, Integral) for number in pair):
        raise TypeError(f"{name}: {argument} needs integers, got {value!r}")
    if len(pair) != 2:
        raise ValueError(f"{name}: {argument} needs one number or two, got {value!r}")
    if min(pair) < least:
        raise ValueError(f"{name}: {argument} must be at least {least}, got {value!r}")
    return int(pair[0]), int(pair[1])
