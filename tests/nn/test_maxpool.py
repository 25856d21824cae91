"""MaxPool against nested loops."""

import numpy as np
import pytest

from hpcdl.nn import MaxPool
from tests.nn.helpers import build, forward_backward


def naive(x, dy, size, stride, padding):
    """y and dx: look at each window row by row, and take the first maximum."""
    height, width = x.shape[1:3]
    (top, _), (left, _) = padding
    y, dx = np.empty_like(dy), np.zeros_like(x)
    for n, p, q, c in np.ndindex(dy.shape):
        best, where = -np.inf, None
        for i, j in np.ndindex(size):
            h, w = p * stride[0] + i - top, q * stride[1] + j - left
            if 0 <= h < height and 0 <= w < width and x[n, h, w, c] > best:
                best, where = x[n, h, w, c], (n, h, w, c)
        y[n, p, q, c] = best
        dx[where] += dy[n, p, q, c]
    return y, dx


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "padding"),
    [
        ((2, 2), (2, 2), ((0, 0), (0, 0))),
        ((3, 3), (3, 3), ((0, 0), (0, 0))),
        ((2, 2), (1, 1), ((0, 0), (0, 0))),
        ((3, 3), (2, 2), ((1, 1), (1, 1))),
        ((3, 2), (1, 3), ((2, 0), (0, 1))),
        ((1, 2), (1, 2), ((0, 0), (0, 0))),
        ((4, 1), (2, 1), ((1, 3), (0, 0))),
        ((1, 1), (2, 3), ((0, 0), (0, 0))),
        ((1, 1), (1, 1), ((0, 0), (0, 0))),
    ],
)
@pytest.mark.parametrize("shape", [(6, 6, 2), (7, 5, 3)])
def test_equals_loops(shape, size, stride, padding, ties):
    layer = MaxPool(size, stride, padding)
    packed, x, dy = build(layer, shape)
    if ties:
        x = np.round(x)
    y, dx, _ = forward_backward(layer, packed, x, dy)
    want_y, want_dx = naive(x, dy, size, stride, padding)
    assert np.array_equal(y, want_y)
    np.testing.assert_allclose(dx, want_dx, rtol=1e-12, atol=1e-12)


def test_one_number_means_both_axes_and_the_stride_is_the_size():
    assert MaxPool(3).window == MaxPool((3, 3), (3, 3), ((0, 0), (0, 0))).window
    assert MaxPool(2, 1, 1).window == MaxPool((2, 2), (1, 1), ((1, 1), (1, 1))).window


def test_of_equal_values_the_first_gets_the_gradient():
    dx = forward_backward(
        MaxPool(), build(MaxPool(), (2, 2, 1))[0], np.ones((1, 2, 2, 1)), np.full((1, 1, 1, 1), 3.0)
    )[1]
    assert dx.ravel().tolist() == [3.0, 0.0, 0.0, 0.0]
    # (0, 1) comes before (1, 0), though the latter is in the first column.
    x = np.array([0.0, 1.0, 1.0, 0.0]).reshape(1, 2, 2, 1)
    dx = forward_backward(MaxPool(), build(MaxPool(), (2, 2, 1))[0], x, np.ones((1, 1, 1, 1)))[1]
    assert dx.ravel().tolist() == [0.0, 1.0, 0.0, 0.0]


def test_negative_values_win_over_padding():
    x = np.full((1, 3, 3, 1), -5.0)
    y, _ = MaxPool(3, 2, 1).forward({}, x, train=False)
    assert (y == -5.0).all()


def test_more_taps_than_a_byte_can_count():
    layer = MaxPool((1, 300))
    packed, x, dy = build(layer, (1, 600, 1))
    _, dx, _ = forward_backward(layer, packed, x, dy)
    assert np.array_equal(dx, naive(x, dy, (1, 300), (1, 300), ((0, 0), (0, 0)))[1])


def test_rows_that_are_padded_already():
    whole = MaxPool(3, 2, 1)
    packed, x, _ = build(whole, (7, 5, 2))
    want, _ = whole.forward(packed.params, x, train=False)
    part = MaxPool(3, 2, ((0, 0), (1, 1)))
    rows = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)), constant_values=-np.inf)
    got = [part.forward({}, rows[:, a:b], train=False)[0] for a, b in ((0, 5), (4, 9))]
    assert np.array_equal(np.concatenate(got, axis=1), want)
