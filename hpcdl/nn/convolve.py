"""The three products of a convolution of NHWC images.

Each is a GEMM over the columns of the input (Chellapilla et al. 2006): the window at each output
position is laid out as one row of a matrix. That matrix is up to I * J times as large as the
input, so it is never there as a whole: a block of it that stays in the cache is filled, used and
filled again, and the backward pass fills it anew, which is faster than to read it from memory.

Legend: N samples; H, W height and width of the padded input; C channels; I, J height and width of
the kernel; P, Q height and width of the output; K outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.nn.window import Window, overlap

# Bytes of a block: about what the caches of one core hold, and enough to keep a device busy.
HOST_BLOCK = 1 << 21
DEVICE_BLOCK = 1 << 26


def convolve(x_NHWC: Array, weight_IJCK: Array, bias_K: Array | None, window: Window) -> Array:
    """The convolution (strictly: the correlation), plus a bias.

    Args:
        x_NHWC: the padded input, contiguous.
        weight_IJCK: the kernel, contiguous.
        bias_K: added to each position, or None.
        window: kernel and stride; its padding is taken as done.

    Returns:
        y_NPQK.
    """
    xp = namespace(x_NHWC)
    outputs = weight_IJCK.shape[-1]
    weight = weight_IJCK.reshape(-1, outputs)
    y_NPQK = xp.empty((x_NHWC.shape[0], *_positions(x_NHWC, window), outputs), x_NHWC.dtype)
    for block, columns in _columns(x_NHWC, window, 0):
        y = y_NPQK[block].reshape(-1, outputs)
        xp.matmul(columns, weight, out=y)
        if bias_K is not None:
            y += bias_K
    return y_NPQK


def weight_gradient(x_NHWC: Array, dy_NPQK: Array, window: Window, out_IJCK: Array) -> None:
    """The derivative by the kernel.

    Args:
        x_NHWC: the padded input, contiguous.
        dy_NPQK: the derivative by the output.
        window: kernel and stride; its padding is taken as done.
        out_IJCK: where the result goes, contiguous.
    """
    xp = namespace(x_NHWC)
    outputs = out_IJCK.shape[-1]
    total = out_IJCK.reshape(-1, outputs)
    part = total
    # A block is at least as large as the kernel, so that adding the parts up stays cheap.
    for block, columns in _columns(x_NHWC, window, out_IJCK.nbytes):
        xp.matmul(columns.T, dy_NPQK[block].reshape(-1, outputs), out=part)
        if part is total:
            part = xp.empty_like(total)
        else:
            total += part
    if part is total:
        total[...] = 0


def input_gradient(
    dy_NPQK: Array, weight_IJCK: Array, window: Window, height: int, width: int
) -> Array:
    """The derivative by the input without its padding.

    Args:
        dy_NPQK: the derivative by the output.
        weight_IJCK: the kernel.
        window: the geometry.
        height: of the input without padding.
        width: of the input without padding.

    Returns:
        (N, height, width, C), contiguous.
    """
    xp = namespace(dy_NPQK)
    samples, rows, columns, outputs = dy_NPQK.shape
    channels = weight_IJCK.shape[2]
    if _pointwise(window) and not window.padded:
        # As one matrix: a product of a 4-D array would be one small GEMM for each row.
        dx = xp.matmul(dy_NPQK.reshape(-1, outputs), weight_IJCK[0, 0].T)
        return dx.reshape(samples, height, width, channels)
    (top, _), (left, _) = window.padding
    (tall, wide), (down, right) = window.kernel, window.stride
    taps = weight_IJCK.reshape(tall * wide, channels, outputs).transpose(0, 2, 1)
    dx = xp.zeros((samples, height, width, channels), dy_NPQK.dtype)
    row_size = columns * tall * wide * channels
    blocks, size = _blocks(xp, samples, rows, row_size, dy_NPQK.itemsize, 0)
    scratch = xp.empty(size, dy_NPQK.dtype)
    for block in blocks:
        dy = dy_NPQK[block]
        part = scratch[: dy.shape[0] * dy.shape[1] * row_size]
        xp.matmul(dy.reshape(-1, outputs), taps, out=part.reshape(tall * wide, -1, channels))
        part = part.reshape(tall, wide, *dy.shape[:3], channels)
        start, stop = block[1].start, block[1].stop
        for i in range(tall):
            there, here = overlap(i, down, top, height, start, stop)
            for j in range(wide):
                across, along = overlap(j, right, left, width, 0, columns)
                dx[block[0], here, along] += part[i, j][:, there, across]
    return dx


def _columns(
    x_NHWC: Array, window: Window, least: int
) -> Iterator[tuple[tuple[slice, slice], Array]]:
    """Blocks (samples, rows) of the output, each with its columns, (positions, I * J * C).

    The columns are valid until the next block is asked for.
    """
    xp = namespace(x_NHWC)
    samples, _, _, channels = x_NHWC.shape
    (tall, wide), (down, right) = window.kernel, window.stride
    rows, columns = _positions(x_NHWC, window)
    row_size = columns * tall * wide * channels
    blocks, size = _blocks(xp, samples, rows, row_size, x_NHWC.itemsize, least)
    if _pointwise(window):
        for block in blocks:
            yield block, x_NHWC[block].reshape(-1, channels)
        return
    scratch = xp.empty(size, x_NHWC.dtype)
    by_sample, by_row, by_column, by_channel = x_NHWC.strides
    for block in blocks:
        x = x_NHWC[block[0], block[1].start * down :]
        shape = (x.shape[0], block[1].stop - block[1].start, columns, tall, wide * channels)
        # A row of the window is one run of wide * channels values, as x is contiguous.
        strides = (by_sample, down * by_row, right * by_column, by_row, by_channel)
        part = scratch[: shape[0] * shape[1] * row_size].reshape(shape)
        part[...] = xp.lib.stride_tricks.as_strided(x, shape, strides)
        yield block, part.reshape(-1, tall * wide * channels)


def _blocks(
    xp: object, samples: int, rows: int, row_size: int, itemsize: int, least: int
) -> tuple[list[tuple[slice, slice]], int]:
    """Cut the output into (samples, rows): whole samples, or rows of one sample where it is large.

    Returns:
        The blocks, and the number of elements that the largest of them needs.
    """
    target = max(HOST_BLOCK if xp is np else DEVICE_BLOCK, least) // itemsize
    many = min(samples, max(1, target // (rows * row_size)))
    tall = min(rows, max(1, target // row_size))
    blocks = [
        (slice(n, min(n + many, samples)), slice(p, min(p + tall, rows)))
        for n in range(0, samples, max(1, many))
        for p in range(0, rows, tall)
    ]
    return blocks, many * tall * row_size


def _positions(x_NHWC: Array, window: Window) -> tuple[int, int]:
    """P and Q for a padded input."""
    (tall, wide), (down, right) = window.kernel, window.stride
    return (x_NHWC.shape[1] - tall) // down + 1, (x_NHWC.shape[2] - wide) // right + 1


def _pointwise(window: Window) -> bool:
    """Whether the columns of an input are the input itself."""
    return window.kernel == (1, 1) and window.stride == (1, 1)
