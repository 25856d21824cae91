"""Sums over positions and over the batch."""

import numpy as np
import pytest

from hpcdl.nn.sums import channel_dot, channel_sum, position_sum


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(5, 3), (4, 6, 3), (4, 2, 3, 5), (0, 2, 2, 3), (0, 3), (2, 0, 4, 3)]
)
def test_shapes_types_and_values(shape, dtype):
    rng = np.random.default_rng(0)
    # Small integers, so that each sum is exact.
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for _ in range(2))
    axes = tuple(range(len(shape) - 1))
    parts = position_sum(x)
    assert parts.dtype == dtype
    assert np.array_equal(parts, x.sum(axis=axes[1:] or 0, keepdims=len(shape) == 2))
    assert channel_sum(x).dtype == channel_dot(x, y).dtype == np.float64
    assert np.array_equal(channel_sum(x), x.sum(axis=axes))
    assert np.array_equal(channel_dot(x, y), (x * y).sum(axis=axes))
