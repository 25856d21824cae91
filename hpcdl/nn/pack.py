"""All parameters of a model as views of one flat vector.

Optimizers, gradient reduction, compression and checkpoints work on slices of the vector, without
packing copies; layers see their own arrays, which are views of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Buffer, Params, Shape

Slices: TypeAlias = Mapping[str, tuple[int, int, Shape]]
"""Dotted name -> (start, stop, shape) in a flat vector."""


@dataclass(frozen=True)
class Packed:
    """Parameters in flat vectors, and the tree of views into them.

    Attributes:
        vector: (n,), every trained value, in the order in which the layers hold them.
        buffers: (m,), every value of state that is not trained.
        params: the tree that layers take; its leaves are views of `vector` and of `buffers`.
        slices: where a trained leaf lies in `vector`: "0.weight" -> (0, 144, (3, 3, 1, 16)).
        buffer_slices: the same for `buffers`.
    """

    vector: Array
    buffers: Array
    params: Params
    slices: Slices
    buffer_slices: Slices

    def views(self, vector: Array) -> Params:
        """The tree of views into another vector that is laid out as `self.vector`.

        Args:
            vector: (n,), contiguous.

        Returns:
            The tree of `self.params` without the buffers; a layer without trained values keeps an
            empty dictionary.

        Raises:
            ValueError: `vector` has another shape.
        """
        if vector.shape != self.vector.shape:
            raise ValueError(f"vector: needs shape {self.vector.shape}, got {vector.shape}")
        return _with_leaves(self.params, _views(vector, self.slices))

    def grads_like(self) -> tuple[Array, Params]:
        """A flat vector of zeros for gradients, and the tree of views into it."""
        grads = namespace(self.vector).zeros_like(self.vector)
        return grads, self.views(grads)


def pack(params: Params, dtype: DTypeLike, xp: Any = np) -> Packed:
    """Copy parameters into flat vectors.

    Args:
        params: as a layer's `init` gave them: numpy arrays, with state wrapped in `Buffer`.
        dtype: of both vectors: float32 or float64.
        xp: the namespace that the vectors shall belong to, such as numpy or cupy.

    Returns:
        The vectors and the views into them.

    Raises:
        TypeError: `dtype` is not a floating-point type, or a leaf is not a numpy array.
        ValueError: a key contains a dot, so that dotted names would not be unique.
    """
    if not np.issubdtype(dtype, np.floating):
        raise TypeError(f"dtype: needs a floating-point type, got {np.dtype(dtype)}")
    trained: dict[str, Array] = {}
    state: dict[str, Array] = {}
    for name, leaf in _leaves(params):
        target, value = (state, leaf.value) if isinstance(leaf, Buffer) else (trained, leaf)
        if not isinstance(value, np.ndarray):
            raise TypeError(f"params[{name!r}]: needs a numpy array, got {type(value).__name__}")
        target[name] = value
    vector, slices = _join(trained, dtype, xp)
    buffers, buffer_slices = _join(state, dtype, xp)
    views = {**_views(vector, slices), **_views(buffers, buffer_slices)}
    return Packed(vector, buffers, _with_leaves(params, views), slices, buffer_slices)


def _leaves(tree: Params, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf with its dotted name."""
    for key, node in tree.items():
        if "." in key:
            raise ValueError(f"params: a key must not contain a dot, got {key!r}")
        if isinstance(node, dict):
            yield from _leaves(node, f"{prefix}{key}.")
        else:
            yield prefix + key, node


def _join(arrays: Mapping[str, Array], dtype: DTypeLike, xp: Any) -> tuple[Array, Slices]:
    """One vector with the values of all arrays, and where each lies in it."""
    slices: dict[str, tuple[int, int, Shape]] = {}
    start = 0
    for name, array in arrays.items():
        stop = start + prod(array.shape)
        slices[name] = (start, stop, array.shape)
        start = stop
    host = np.empty(start, dtype)
    for name, (first, last, _) in slices.items():
        host[first:last] = arrays[name].ravel()
    return xp.asarray(host), slices


def _views(vector: Array, slices: Slices) -> dict[str, Array]:
    """A view of `vector` for each name."""
    return {name: vector[a:b].reshape(shape) for name, (a, b, shape) in slices.items()}


def _with_leaves(tree: Params, leaves: Mapping[str, Array], prefix: str = "") -> Params:
    """A tree of the same form with other leaves, less those that are not given."""
    new: Params = {}
    for key, node in tree.items():
        name = prefix + key
        if isinstance(node, dict):
            new[key] = _with_leaves(node, leaves, f"{name}.")
        elif name in leaves:
            new[key] = leaves[name]
    return new
