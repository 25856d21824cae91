"""Conv2d against six nested loops."""

import numpy as np
import pytest

from hpcdl.nn import Conv2d, convolve
from tests.nn.helpers import build, forward_backward


def naive(x, weight, bias, dy, stride, padding):
    """y, dx, dweight, dbias, one product at a time, straight from the definition."""
    samples, height, width, channels = x.shape
    tall, wide, _, outputs = weight.shape
    (top, bottom), (left, right) = padding
    rows = (height + top + bottom - tall) // stride[0] + 1
    columns = (width + left + right - wide) // stride[1] + 1
    y = np.zeros((samples, rows, columns, outputs))
    dx, dweight, dbias = np.zeros_like(x), np.zeros_like(weight), np.zeros_like(bias)
    for n, p, q, k in np.ndindex(y.shape):
        y[n, p, q, k] = bias[k]
        dbias[k] += dy[n, p, q, k]
        for i, j, c in np.ndindex(tall, wide, channels):
            h, w = p * stride[0] + i - top, q * stride[1] + j - left
            if 0 <= h < height and 0 <= w < width:
                y[n, p, q, k] += x[n, h, w, c] * weight[i, j, c, k]
                dx[n, h, w, c] += dy[n, p, q, k] * weight[i, j, c, k]
                dweight[i, j, c, k] += dy[n, p, q, k] * x[n, h, w, c]
    return y, dx, dweight, dbias


def both_ways(value):
    return value if isinstance(value, tuple) else (value, value)


def all_sides(kernel, padding):
    if padding is None:
        return tuple(((k - 1) // 2, k // 2) for k in both_ways(kernel))
    return tuple(both_ways(side) for side in both_ways(padding))


def check(kernel, stride, padding, shape=(7, 6, 2)):
    layer = Conv2d(3, kernel, stride, padding)
    packed, x, dy = build(layer, shape, samples=3)
    y, dx, grads = forward_backward(layer, packed, x, dy)
    dweight, dbias = (packed.views(grads)[name] for name in ("weight", "bias"))
    params = packed.params
    want = naive(
        x, params["weight"], params["bias"], dy, both_ways(stride), all_sides(kernel, padding)
    )
    for got, value in zip((y, dx, dweight, dbias), want, strict=True):
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("padding", [0, 1, 2, None])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_square(kernel, stride, padding):
    check(kernel, stride, padding)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((3, 1), (1, 2), None),
        ((1, 4), (2, 1), (0, 3)),
        ((2, 3), (3, 2), ((2, 0), (1, 3))),
        ((5, 2), (1, 3), ((0, 0), (0, 1))),
        (2, 1, None),
        (3, 4, 0),  # steps over whole rows of the input
        (1, 3, ((1, 2), (0, 1))),  # a window that sees padding alone
    ],
)
def test_asymmetric(kernel, stride, padding):
    check(kernel, stride, padding)


@pytest.mark.parametrize("shape", [(5, 5, 1), (1, 9, 3), (8, 1, 2)])
def test_thin_images(shape):
    check(3, 1, None, shape)


@pytest.mark.parametrize("block", [8, 1000, 5000, 50000])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 1), ((2, 5), (2, 1))])
def test_any_block_size(monkeypatch, block, kernel, stride):
    # From one row of one sample at a time to the whole batch at once.
    monkeypatch.setattr(convolve, "HOST_BLOCK", block)
    check(kernel, stride, None)


@pytest.mark.parametrize("samples", [1, 3, 8])
@pytest.mark.parametrize("row_size", [1, 100, 10**6])
def test_blocks_cover_each_row_of_each_sample_once(samples, row_size):
    rows = 7
    blocks, size = convolve._blocks(np, samples, rows, row_size, 8, 0)
    times = np.zeros((samples, rows), int)
    for block in blocks:
        times[block] += 1
        assert times[block].size * row_size <= size
    assert (times == 1).all()
    assert size <= max(convolve.HOST_BLOCK // 8, row_size)


def test_same_padding_keeps_the_shape():
    for kernel in (1, 2, 3, 4, 5, (2, 7)):
        shape, _ = Conv2d(1, kernel).init(np.random.default_rng(0), (8, 9, 1))
        assert shape == (8, 9, 1)


def test_rows_that_are_padded_already():
    # What a decomposition by height does: its rows come with their neighbours' rows.
    whole = Conv2d(3, 3, padding=1)
    packed, x, _ = build(whole, (6, 5, 2))
    want, _ = whole.forward(packed.params, x, train=False)
    part = Conv2d(3, 3, padding=((0, 0), (1, 1)))
    rows = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    got = [
        part.forward(packed.params, rows[:, a : b + 2], train=False)[0]
        for a, b in ((0, 1), (1, 4), (4, 6))
    ]
    np.testing.assert_allclose(np.concatenate(got, axis=1), want, rtol=1e-12, atol=1e-12)


def test_weights_have_the_variance_of_he():
    _, params = Conv2d(64, 3).init(np.random.default_rng(0), (8, 8, 32))
    weight = params["weight"]
    assert weight.dtype == np.float64
    assert weight.shape == (3, 3, 32, 64)
    # The relative standard error of a variance of n normal values is sqrt(2 / n).
    assert abs(weight.var() / (2 / (9 * 32)) - 1) < 5 * (2 / weight.size) ** 0.5
    assert not params["bias"].any()


def test_columns_are_not_kept():
    layer = Conv2d(8, 5, bias=False)
    packed, x, _ = build(layer, (32, 32, 4), samples=8)
    _, (padded, _) = layer.forward(packed.params, x, train=True)
    assert padded.nbytes == 8 * 36 * 36 * 4 * 8
