"""The residual block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array
from hpcdl.nn.layer import Ctx, Layer, Params, Shape


@dataclass(frozen=True)
class Residual:
    """y = body(x) + shortcut(x) (He et al. 2016).

    Parameters: those of the body under "body", those of the shortcut, if there is one, under
    "shortcut".

    Attributes:
        body: a layer, usually a Sequential.
        shortcut: a layer that gives the shape that the body gives; None for the identity.
    """

    body: Layer
    shortcut: Layer | None = None

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; body and shortcut must give the same shape."""
        y_shape, body = _init("body", self.body, rng, x_shape)
        params: Params = {"body": body}
        other: Shape = tuple(x_shape)
        if self.shortcut is not None:
            other, params["shortcut"] = _init("shortcut", self.shortcut, rng, x_shape)
        if y_shape != other:
            raise ValueError(
                f"Residual: needs the same shape from both branches, got {y_shape} from the body "
                f"and {other} from the shortcut"
            )
        return y_shape, params

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`."""
        y, body = self.body.forward(params["body"], x, train=train, rng=rng)
        shortcut = None
        if self.shortcut is not None:
            x, shortcut = self.shortcut.forward(params["shortcut"], x, train=train, rng=rng)
        return y + x, (body, shortcut) if train else None

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`.

        Raises:
            ValueError: `ctx` is of a forward pass that was not one of training.
        """
        if ctx is None:
            raise ValueError("Residual: backward needs the ctx of a forward with train=True")
        body, shortcut = ctx
        dx = self.body.backward(params["body"], body, dy, grads["body"])
        if self.shortcut is not None:
            dy = self.shortcut.backward(params["shortcut"], shortcut, dy, grads["shortcut"])
        return dx + dy


def _init(
    name: str, layer: Layer, rng: np.random.Generator, x_shape: Shape
) -> tuple[Shape, Params]:
    """`layer.init`, with the branch named in the message of an error."""
    try:
        return layer.init(rng, x_shape)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
