"""Layers one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array
from hpcdl.nn.layer import Ctx, Layer, Params, Shape


@dataclass(frozen=True)
class Sequential:
    """The composition of layers.

    Parameters: those of layer i under the key str(i).

    Attributes:
        layers: the layers, the one nearest to the input first; kept as a tuple. None at all gives
            the identity.

    Raises:
        TypeError: an element is not a layer.
    """

    layers: Sequence[Layer]

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        for i, layer in enumerate(self.layers):
            if not isinstance(layer, Layer) or isinstance(layer, type):
                raise TypeError(f"Sequential: element {i} is not a layer, got {layer!r}")

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; the message of an error tells the number of the layer."""
        params: Params = {}
        shape = tuple(x_shape)
        for i, layer in enumerate(self.layers):
            try:
                shape, params[str(i)] = layer.init(rng, shape)
            except ValueError as error:
                raise ValueError(f"layer {i}: {error}") from error
        return shape, params

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`."""
        ctxs: list[Ctx] = []
        for i, layer in enumerate(self.layers):
            x, ctx = layer.forward(params[str(i)], x, train=train, rng=rng)
            ctxs.append(ctx)
        return x, ctxs if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`.

        Raises:
            ValueError: `ctx` is of a forward pass that was not one of training.
        """
        if ctx is None:
            raise ValueError("Sequential: backward needs the ctx of a forward with train=True")
        for i in reversed(range(len(self.layers))):
            dy = self.layers[i].backward(params[str(i)], ctx[i], dy, grads[str(i)])
        return dy
