"""What a layer is.

A layer is a frozen dataclass of settings. It holds no arrays: parameters come in, and whatever the
backward pass needs goes out as `ctx`, so that a layer may run on several microbatches at once.

Legend of shapes: N samples, H height, W width, C channels (NHWC), K outputs. A `Shape` is that of
one sample, without N. N may be 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hpcdl.array import Array

Shape: TypeAlias = tuple[int, ...]
"""The shape of one sample."""

Params: TypeAlias = dict[str, Any]
"""Nested dictionaries with arrays as leaves."""

Ctx: TypeAlias = Any
"""What `forward` hands to `backward`; None if the forward pass was not one of training."""

Reduce: TypeAlias = Callable[[Array], object]
"""Sums a small 1-D float64 array over ranks, in place."""


@dataclass(frozen=True)
class Buffer:
    """Marks a leaf of `Params` as state that is kept but not trained.

    Attributes:
        value: the array, such as a running mean.
    """

    value: Array


@runtime_checkable
class Layer(Protocol):
    """A differentiable function of an input and of parameters."""

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """Check the shape of the input, and draw the parameters.

        Args:
            rng: where random values come from.
            x_shape: shape of one input sample.

        Returns:
            The shape of one output sample, and the parameters as float64 numpy arrays, with state
            wrapped in `Buffer`. A layer without parameters returns an empty dictionary.

        Raises:
            ValueError: the layer cannot take such an input; the message names the layer, the shape
                that it got and what it needs.
        """
        ...

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """Compute the output.

        Args:
            params: as `init` gave them, packed: `Buffer` leaves are plain arrays.
            x: (N, *x_shape); it is left as it is.
            train: True to get a `ctx` for `backward` and to update the state in `params`; False
                for evaluation, in which case `ctx` is None and nothing is kept alive.
            rng: for layers that draw random numbers.

        Returns:
            The output (N, *y_shape), of the dtype of `x` and `params`, and `ctx`.
        """
        ...

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """Compute the gradients from `dy`, the derivative of the loss by the output.

        Args:
            params: as given to `forward`.
            ctx: what `forward` returned; it is left as it is.
            dy: (N, *y_shape); it is left as it is.
            grads: same keys as `params` without the state; its leaves are C-contiguous and are
                overwritten, not added to.

        Returns:
            The derivative of the loss by the input, (N, *x_shape).
        """
        ...


def image_shape(layer: Layer, x_shape: Shape) -> tuple[int, int, int]:
    """`x_shape` as (height, width, channels).

    Args:
        layer: whose input it is; the message of the error names it.
        x_shape: shape of one sample.

    Returns:
        The three lengths.

    Raises:
        ValueError: the sample is not an image.
    """
    if len(x_shape) != 3:
        raise ValueError(
            f"{type(layer).__name__}: needs an input of shape (height, width, channels), "
            f"got {tuple(x_shape)}"
        )
    return x_shape[0], x_shape[1], x_shape[2]


def check_count(layer: Layer, argument: str, value: object) -> None:
    """Refuse a number of outputs that is none.

    Args:
        layer: whose argument it is; the message of the error names it.
        argument: its name.
        value: what the user gave.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: `value` is less than 1.
    """
    if not isinstance(value, int | np.integer):
        raise TypeError(f"{type(layer).__name__}: {argument} needs an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{type(layer).__name__}: {argument} must be at least 1, got {value}")


def check_channels(layer: Layer, x: Array, ndim: int, channels: int) -> None:
    """Refuse an input that does not fit the parameters.

    Args:
        layer: whose input it is; the message of the error names it.
        x: the input, with the batch dimension.
        ndim: dimensions that it needs; 0 for any number.
        channels: length that its last dimension needs.

    Raises:
        ValueError: the number of dimensions or the last length is another one.
    """
    if (ndim and x.ndim != ndim) or x.shape[-1] != channels:
        dims = f"{ndim} dimensions" if ndim else "any dimensions"
        raise ValueError(
            f"{type(layer).__name__}: needs an input of {dims} with last length {channels}, "
            f"got shape {tuple(x.shape)}"
        )


def he_normal(rng: np.random.Generator, shape: Shape, fan_in: int) -> Array:
    """Random weights that keep the variance through a ReLU (He et al. 2015).

    Args:
        rng: where random values come from.
        shape: shape of the weights.
        fan_in: number of inputs that enter one output.

    Returns:
        Float64 numpy array, normal with mean 0 and variance 2 / fan_in.
    """
    return rng.standard_normal(shape) * (2.0 / fan_in) ** 0.5
