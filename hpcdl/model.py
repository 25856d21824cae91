"""A network with its parameters: what the training loop holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hpcdl.array import Array
from hpcdl.nn import Layer, Packed, Params, Shape, pack


@dataclass(frozen=True)
class Model:
    """A layer, and all its parameters in one flat vector, all its gradients in another.

    Attributes:
        layer: the network; usually a `Sequential`.
        packed: the flat vectors of parameters and of state, and the views that the layers take.
        grads: (n,), the flat vector of gradients.
        grad_views: the views of it that the layers write to.
        sample_shape: shape of one input sample, that of the whole image where it is split.
        output_shape: shape of one output.
        replicas: how many ranks compute each sample's loss. Where an image is split over ranks,
            what follows the last split layer is computed alike on all of them; each contributes
            that share of the gradient, so that the sum over ranks counts a sample once.
    """

    layer: Layer
    packed: Packed
    grads: Array
    grad_views: Params
    sample_shape: Shape
    output_shape: Shape
    replicas: int = 1

    @classmethod
    def create(
        cls,
        layer: Layer,
        sample_shape: Shape,
        *,
        seed: int = 0,
        dtype: DTypeLike = np.float32,
        xp: Any = np,
        replicas: int = 1,
    ) -> Model:
        """Draw the parameters; the same seed gives the same on every rank.

        Args:
            layer: the network.
            sample_shape: shape of one input sample, without the batch.
            seed: of the initial weights.
            dtype: float32 or float64.
            xp: numpy, or cupy for a GPU.
            replicas: see `Model`.

        Raises:
            ValueError: the layers do not fit each other or the sample; the message says which.
        """
        output_shape, params = layer.init(np.random.default_rng([seed, 0]), sample_shape)
        packed = pack(params, dtype, xp)
        grads, views = packed.grads_like()
        return cls(layer, packed, grads, views, sample_shape, output_shape, replicas)

    @property
    def parameters(self) -> Array:
        """(n,), every trained value."""
        return self.packed.vector

    def forward(self, x: Array, *, train: bool, rng: np.random.Generator) -> tuple[Array, Any]:
        """Return the output for a batch, and what `backward` needs."""
        return self.layer.forward(self.packed.params, x, train=train, rng=rng)

    def backward(self, ctx: Any, dy: Array) -> None:
        """Fill `grads` with the gradient of the loss, given its derivative by the output."""
        self.layer.backward(self.packed.params, ctx, dy, self.grad_views)
