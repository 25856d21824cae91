"""Sums over the positions of an image and over a batch.

The sum over the positions of one sample is done in the array's own type, by BLAS where there is
one; the partial sums of the samples are added in float64. So the rounding error in float32 grows
with the size of a sample and not with that of the batch.
"""

from __future__ import annotations

from math import prod

from hpcdl.array import Array, namespace


def position_sum(x: Array) -> Array:
    """Sum over all axes but the first and the last.

    Args:
        x: (N, ..., C), with at least two dimensions; a matrix counts as one sample of N positions.

    Returns:
        (N, C), or (1, C) of a matrix, of the dtype of x.
    """
    xp = namespace(x)
    rows = _rows(x)
    return xp.matmul(xp.ones(rows.shape[1], x.dtype), rows)


def channel_sum(x: Array) -> Array:
    """Sum over all axes but the last.

    Args:
        x: (N, ..., C), with at least two dimensions.

    Returns:
        (C,), float64.
    """
    return position_sum(x).sum(axis=0, dtype=namespace(x).float64)


def channel_dot(x: Array, y: Array) -> Array:
    """Sum of x * y over all axes but the last.

    Args:
        x: (N, ..., C), with at least two dimensions.
        y: the same shape.

    Returns:
        (C,), float64.
    """
    xp = namespace(x)
    return xp.einsum("nrc,nrc->nc", _rows(x), _rows(y)).sum(axis=0, dtype=xp.float64)


def _rows(x: Array) -> Array:
    """`x` as (samples, positions, C)."""
    if x.ndim == 2:
        return x[None]
    return x.reshape(x.shape[0], prod(x.shape[1:-1]), x.shape[-1])
