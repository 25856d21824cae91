"""Each layer with its height split equals the same layer on one rank, forward and backward."""

import itertools

import numpy as np
import pytest

from collectives.blocks import share
from collectives.traffic import Traffic
from hpcdl.grid import ProcessGrid
from hpcdl.nn import BatchNorm, Conv2d, Dense, Flatten, GlobalAvgPool, MaxPool, ReLU, Sequential
from hpcdl.parallel import spatial
from tests.nn.helpers import build
from tests.parallel.tools import check_equal

HEIGHTS = (7, 8, 9, 16)


@pytest.fixture
def column(comm):
    """All ranks share each sample."""
    if comm is None:
        yield None
        return
    with ProcessGrid(comm, data=1, height=comm.size) as grid:
        yield grid


def fits(layer, shape):
    try:
        layer.init(np.random.default_rng(0), shape)
    except ValueError:
        return False
    return True


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_conv(comm, column, kernel, stride):
    half = kernel // 2
    paddings = {None, 0, half, kernel + 1, ((0, half), (1, 0)), ((kernel - 1, 0), (half, half))}
    for padding, height in itertools.product(sorted(paddings, key=str), HEIGHTS):
        layer = Conv2d(3, kernel, stride, padding)
        if fits(layer, (height, 7, 2)):
            check_equal(lambda _, layer=layer: layer, column, (height, 7, 2), 3)


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("size", [2, 3])
def test_maxpool(comm, column, size):
    for stride, padding, height in itertools.product((1, 2, 3), (0, 1, size - 1), HEIGHTS):
        layer = MaxPool(size, stride, padding)
        check_equal(lambda _, layer=layer: layer, column, (height, 6, 2), 3)


@pytest.mark.ranks(2, 3, 4)
def test_maxpool_of_negative_values_never_takes_the_padding(comm):
    with spatial(MaxPool(3, 2, 1), comm, (8, 5, 1)) as layer:
        x = np.full((2, layer.rows.stop - layer.rows.start, 5, 1), -7.0)
        y, _ = layer.forward({}, x, train=False)
    assert (y == -7).all()


@pytest.mark.ranks(1, 2, 3, 4)
def test_random_windows(comm, column):
    rng = np.random.default_rng(5)  # the same on all ranks
    done = 0
    while done < 40:
        kernel, stride = (
            tuple(rng.integers(1, 8, 2).tolist()),
            tuple(rng.integers(1, 4, 2).tolist()),
        )
        pads = tuple(tuple(rng.integers(0, k + 1, 2).tolist()) for k in kernel)
        shape = (*rng.integers(1, 12, 2).tolist(), int(rng.integers(1, 4)))
        layer = Conv2d(2, kernel, stride, pads)
        if rng.random() < 0.4:
            pads = tuple(
                tuple(min(p, k - 1) for p in side) for side, k in zip(pads, kernel, strict=True)
            )
            layer = MaxPool(kernel, stride, pads)
        if fits(layer, shape):
            samples = int(rng.integers(0, 4))
            check_equal(lambda _, layer=layer: layer, column, shape, samples, seed=done)
            done += 1


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize(
    "make",
    [
        lambda reduce: ReLU(),
        lambda reduce: BatchNorm(reduce=reduce),
        lambda reduce: GlobalAvgPool(),
        lambda reduce: Flatten(),
        lambda reduce: Sequential([Flatten(), Dense(5), ReLU(), BatchNorm(reduce=reduce)]),
        lambda reduce: Sequential([GlobalAvgPool(), BatchNorm(reduce=reduce), Dense(5)]),
    ],
    ids=["relu", "batchnorm", "globalavgpool", "flatten", "flatten-dense", "behind-the-mean"],
)
def test_other_layers(comm, column, make):
    for height, samples in ((1, 4), (3, 4), (8, 1), (9, 3)):
        check_equal(make, column, (height, 4, 3), samples)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_stacks_on_a_grid_of_samples_and_rows(comm, kernel):
    def make(reduce):
        layers = [
            Conv2d(3, kernel),
            BatchNorm(reduce=reduce),
            MaxPool(3, 2, 1),
            Conv2d(2, kernel, 2),
        ]
        return Sequential(layers)

    with ProcessGrid(comm, data=2, height=2) as grid:
        for height, samples in itertools.product(HEIGHTS, (4, 3)):
            check_equal(make, grid, (height, 7, 2), samples)


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize("kernel", [1, 3, 5, 7])
def test_bytes_of_the_halo(comm, kernel):
    samples, height, width, inputs, outputs = 3, 16, 5, 2, 4
    layer = Conv2d(outputs, kernel)
    packed, x, dy = build(layer, (height, width, inputs), samples)
    start, stop = share(height, comm.rank, comm.size)
    traffic = Traffic()
    with spatial(layer, comm, (height, width, inputs), traffic=traffic) as split:
        _, tree = packed.grads_like()
        sides = (comm.rank > 0) + (comm.rank < comm.size - 1)
        # Each side sends the rows that the kernel reaches over; backward takes as many back.
        want = samples * inputs * width * (kernel // 2) * 8 * sides
        _, ctx = split.forward(packed.params, x[:, start:stop], train=True)
        assert traffic.bytes == want
        assert traffic.messages == (sides if kernel > 1 else 0)
        split.backward(packed.params, ctx, dy[:, start:stop], tree)
        assert traffic.bytes == 2 * want
