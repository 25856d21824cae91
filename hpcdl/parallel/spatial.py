"""Spatial decomposition: the height of each sample is split over ranks (Dryden et al. 2019).

`spatial` takes a layer for whole samples and returns one for this rank's rows, with the same
parameters. Nothing else changes, so the rest of training need not know.

The convention for gradients: *every rank contributes a share*. Where activations are split, a
rank's share is what its own rows contribute. Where they are whole, as behind a global average or a
gather, all ranks compute the same loss, and each takes a part of it: it scales the loss by
1 / (samples of the global batch * `Spatial.replicas`). Then the sum over all ranks of the grid of
the gradients of the parameters is the gradient, and likewise for the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TypeAlias

import numpy as np
from mpi4py import MPI

from collectives.closing import Closing
from collectives.traffic import Traffic
from hpcdl.array import Array
from hpcdl.halo import reach
from hpcdl.nn.batchnorm import BatchNorm
from hpcdl.nn.conv import Conv2d
from hpcdl.nn.dense import Dense
from hpcdl.nn.flatten import Flatten
from hpcdl.nn.globalavgpool import GlobalAvgPool
from hpcdl.nn.layer import Ctx, Layer, Params, Reduce, Shape, image_shape
from hpcdl.nn.maxpool import MaxPool
from hpcdl.nn.relu import ReLU
from hpcdl.nn.residual import Residual
from hpcdl.nn.sequential import Sequential
from hpcdl.parallel.ranks import Ranks
from hpcdl.parallel.splitlayers import Gathered, Windowed
from hpcdl.parallel.sumover import Chain

Decomposed: TypeAlias = tuple[Layer, Shape | None]
"""A layer for this rank's rows, and the shape of a global output sample; None: it is whole."""


def spatial(
    layer: Layer, comm: MPI.Intracomm, x_shape: Shape, *, traffic: Traffic | None = None
) -> Spatial:
    """Split the height of each sample over ranks.

    A `reduce` of a BatchNorm sums over the ranks that have other samples, as if there were no
    decomposition; the sum over the ranks that share a sample is put in front of it here.

    Args:
        layer: a layer or a network for whole samples.
        comm: the ranks that share each sample, such as ``grid.comm("height")``. All of them get
            the same samples, in the same order, and each its own rows.
        x_shape: of a global input sample; its first dimension is split.
        traffic: counters to add to.

    Returns:
        A layer with the same parameters, for this rank's rows. Close it.

    Raises:
        TypeError: there is no rule for a layer of some type.
        ValueError: a layer cannot take such an input.
    """
    ranks = Ranks(comm, traffic)
    body, y_shape = decompose(layer, tuple(x_shape), ranks)
    start, stop = ranks.spans(x_shape[0])[ranks.rank]
    replicas = ranks.size if y_shape is None else 1
    return Spatial(body, tuple(x_shape), slice(start, stop), replicas, ranks)


@dataclass(frozen=True)
class Spatial(Closing):
    """A decomposed network; `spatial` makes it. A context manager, for its plans are freed.

    Attributes:
        body: the decomposed layer.
        x_shape: of a global input sample.
        rows: those of a sample that this rank takes.
        replicas: on how many ranks each output is: that of the ranks that share a sample where the
            output is whole, and 1 where it is split like the input.
        ranks: those that share each sample.
    """

    body: Layer
    x_shape: Shape
    rows: slice
    replicas: int
    ranks: Ranks

    def init(self, rng: np.random.Generator, x_shape: Shape) -> tuple[Shape, Params]:
        """See `Layer.init`; the shapes are those of global samples, the parameters are the same.

        Raises:
            ValueError: `x_shape` is not the one that the layer was decomposed for.
        """
        if tuple(x_shape) != self.x_shape:
            raise ValueError(f"x_shape={tuple(x_shape)}: was decomposed for {self.x_shape}")
        return self.body.init(rng, x_shape)

    def forward(
        self, params: Params, x: Array, *, train: bool, rng: np.random.Generator | None = None
    ) -> tuple[Array, Ctx]:
        """See `Layer.forward`; x (N, h, ...) is this rank's rows.

        Raises:
            ValueError: `x` is of another shape.
        """
        local = (self.rows.stop - self.rows.start, *self.x_shape[1:])
        if tuple(x.shape[1:]) != local:
            raise ValueError(
                f"x: needs shape (samples, {', '.join(map(str, local))}), that is rows "
                f"{self.rows.start}:{self.rows.stop} of samples {self.x_shape}, got "
                f"{tuple(x.shape)} (rank {self.ranks.rank} of {self.ranks.size})"
            )
        return self.body.forward(params, x, train=train, rng=rng)

    def backward(self, params: Params, ctx: Ctx, dy: Array, grads: Params) -> Array:
        """See `Layer.backward`; dy and the gradients are shares, see `hpcdl.parallel.spatial`."""
        return self.body.backward(params, ctx, dy, grads)

    def close(self) -> None:
        """Free all plans. Closing twice is harmless."""
        self.ranks.close()


@singledispatch
def decompose(layer: Layer, shape: Shape, ranks: Ranks) -> Decomposed:
    """Decompose a layer by the rule of its type.

    Another type of layer gets its rule by ``decompose.register(Type, rule)``; `pointwise` and
    `whole` are rules that fit many.

    Args:
        layer: one that works on whole samples.
        shape: of a global input sample; its first dimension is split.
        ranks: those that share each sample.

    Returns:
        The layer for this rank's rows, and the shape of a global output sample, or None.

    Raises:
        TypeError: there is no rule for a layer of this type.
        ValueError: the layer cannot take such an input.
    """
    known = ", ".join(sorted(t.__name__ for t in decompose.registry if t is not object))
    raise TypeError(
        f"{type(layer).__name__}: has no rule for samples whose height is split; there are rules "
        f"for {known}; hpcdl.parallel.spatial.decompose.register adds one"
    )


def pointwise(layer: Layer, shape: Shape, ranks: Ranks) -> Decomposed:
    """A layer whose outputs see one position each works on any rows, as it is."""
    return layer, shape


def whole(layer: Layer, shape: Shape, ranks: Ranks) -> Decomposed:
    """A layer that needs whole samples gets them gathered."""
    return Gathered(layer, ranks.gather(shape[0])), None


def _window(layer: Conv2d | MaxPool, shape: Shape, ranks: Ranks) -> Decomposed:
    height, width, channels = image_shape(layer, shape)
    window = layer.window
    rows, columns = window.output_shape(type(layer).__name__, height, width)
    (top, _), sides = window.padding
    outputs = ranks.spans(rows)
    views = [reach(span, height, window.kernel[0], window.stride[0], top) for span in outputs]
    mine, (start, stop) = views[ranks.rank], outputs[ranks.rank]
    # Away from the edges of the sample nothing of the padding is left.
    padding = ((mine.before, mine.after), sides)
    y_shape = (rows, columns, layer.channels if isinstance(layer, Conv2d) else channels)
    return Windowed(
        layer=layer,
        local=replace(layer, padding=padding) if start < stop else None,
        exchange=ranks.halo(height, [view.rows for view in views]),
        x_row=shape[1:],
        y_row=y_shape[1:],
    ), y_shape


def _batch_norm(layer: BatchNorm, shape: Shape, ranks: Ranks) -> Decomposed:
    return replace(layer, reduce=_with_total(ranks, layer.reduce)), shape


def _global_avg_pool(layer: GlobalAvgPool, shape: Shape, ranks: Ranks) -> Decomposed:
    return replace(layer, reduce=_with_total(ranks, layer.reduce)), None


def _with_total(ranks: Ranks, reduce: Reduce | None) -> Reduce:
    return ranks.total if reduce is None else Chain(ranks.total, reduce)


def _sequential(layer: Sequential, shape: Shape, ranks: Ranks) -> Decomposed:
    layers: list[Layer] = []
    at: Shape | None = shape
    for i, inner in enumerate(layer.layers):
        if at is not None:
            inner, at = _named(f"layer {i}", inner, at, ranks)
        layers.append(inner)
    return Sequential(layers), at


def _residual(layer: Residual, shape: Shape, ranks: Ranks) -> Decomposed:
    body, at = _named("body", layer.body, shape, ranks)
    shortcut = layer.shortcut
    beside: Shape | None = shape
    if shortcut is not None:
        shortcut, beside = _named("shortcut", shortcut, shape, ranks)
    if (at is None) != (beside is None):
        return whole(layer, shape, ranks)
    return Residual(body, shortcut), at


def _named(name: str, layer: Layer, shape: Shape, ranks: Ranks) -> Decomposed:
    """`decompose`, with the place of the layer in the message of an error."""
    try:
        return decompose(layer, shape, ranks)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


decompose.register(BatchNorm, _batch_norm)
decompose.register(Conv2d, _window)
decompose.register(Dense, whole)
decompose.register(Flatten, whole)
decompose.register(GlobalAvgPool, _global_avg_pool)
decompose.register(MaxPool, _window)
decompose.register(ReLU, pointwise)
decompose.register(Residual, _residual)
decompose.register(Sequential, _sequential)
