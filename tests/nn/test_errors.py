"""Settings and shapes that a layer cannot take are refused by name."""

import numpy as np
import pytest

from hpcdl.nn import (
    BatchNorm,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool,
    MaxPool,
    ReLU,
    Residual,
    Sequential,
)
from tests.nn.helpers import build

# Layer, shape of the input, and what the message says: the layer, what it got, what it needs.
SHAPES = [
    (Dense(3), (4, 4, 2), ["Dense", "(4, 4, 2)", "(channels,)", "Flatten"]),
    (Dense(3), (), ["Dense", "()", "(channels,)"]),
    (Conv2d(3), (6,), ["Conv2d", "(6,)", "(height, width, channels)"]),
    (Conv2d(3, 5, padding=0), (4, 9, 2), ["Conv2d", "window of (5, 5)", "(4, 9)", "at least"]),
    (Conv2d(3, (1, 7), padding=((0, 0), (2, 1))), (9, 3, 2), ["Conv2d", "(1, 7)", "(9, 6)"]),
    (MaxPool(), (6,), ["MaxPool", "(6,)", "(height, width, channels)"]),
    (MaxPool(3), (2, 8, 1), ["MaxPool", "(3, 3)", "(2, 8)"]),
    (GlobalAvgPool(), (3, 2), ["GlobalAvgPool", "(3, 2)", "(height, width, channels)"]),
    (GlobalAvgPool(), (0, 2, 1), ["GlobalAvgPool", "(0, 2, 1)", "at least one"]),
    (BatchNorm(), (), ["BatchNorm", "()", "(..., channels)"]),
    (Sequential([ReLU(), Conv2d(2), Dense(3)]), (4, 4, 1), ["layer 2: Dense", "(4, 4, 2)"]),
    (
        Sequential([Residual(Sequential([Flatten(), MaxPool()]))]),
        (4, 4, 1),
        ["layer 0: body: layer 1: MaxPool", "(16,)"],
    ),
    (Residual(Conv2d(3)), (4, 4, 1), ["Residual", "(4, 4, 3)", "(4, 4, 1)", "same shape"]),
    (Residual(ReLU(), Dense(2)), (4, 4, 1), ["shortcut: Dense", "(4, 4, 1)"]),
]


@pytest.mark.parametrize(("layer", "x_shape", "words"), SHAPES)
def test_shapes_are_checked_at_init(layer, x_shape, words):
    with pytest.raises(ValueError) as error:
        layer.init(np.random.default_rng(0), x_shape)
    for word in words:
        assert word in str(error.value)


SETTINGS = [
    (lambda: Dense(0), ["Dense", "units", "0", "at least 1"]),
    (lambda: Conv2d(0), ["Conv2d", "channels", "0", "at least 1"]),
    (lambda: Conv2d(2, kernel=0), ["Conv2d", "kernel", "0", "at least 1"]),
    (lambda: Conv2d(2, kernel=(3, 3, 3)), ["Conv2d", "kernel", "(3, 3, 3)", "two"]),
    (lambda: Conv2d(2, stride=(1, -1)), ["Conv2d", "stride", "(1, -1)", "at least 1"]),
    (lambda: Conv2d(2, padding=-1), ["Conv2d", "padding", "-1", "at least 0"]),
    (lambda: Conv2d(2, padding=((0, 0), (0, -2))), ["Conv2d", "padding", "(0, -2)"]),
    (lambda: Conv2d(2, padding=(1, 1, 1)), ["Conv2d", "padding", "(1, 1, 1)", "(top, bottom)"]),
    (lambda: MaxPool(0), ["MaxPool", "size", "0", "at least 1"]),
    (lambda: MaxPool(2, stride=0), ["MaxPool", "stride", "0", "at least 1"]),
    (lambda: MaxPool(2, padding=2), ["MaxPool", "padding", "2", "less than"]),
    (lambda: BatchNorm(momentum=1.5), ["BatchNorm", "momentum", "1.5", "0..1"]),
    (lambda: BatchNorm(eps=0.0), ["BatchNorm", "eps", "0.0", "more than 0"]),
]


@pytest.mark.parametrize(("make", "words"), SETTINGS)
def test_settings_are_checked_when_made(make, words):
    with pytest.raises(ValueError) as error:
        make()
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("wrong", [2.5, "3", (1, 2.0)])
def test_sizes_are_integers(wrong):
    with pytest.raises(TypeError, match="Conv2d: kernel needs integers, got"):
        Conv2d(2, kernel=wrong)
    with pytest.raises(TypeError, match="MaxPool: size needs integers, got"):
        MaxPool(wrong)
    with pytest.raises(TypeError, match="Dense: units needs an integer, got"):
        Dense(wrong)


def test_sizes_may_be_integers_of_numpy():
    assert Conv2d(np.int64(2), np.int32(5)).window == Conv2d(2, 5).window


@pytest.mark.parametrize("wrong", [ReLU, 3, None, lambda x: x])
def test_sequential_takes_layers_only(wrong):
    with pytest.raises(TypeError, match="Sequential: element 1 is not a layer, got"):
        Sequential([ReLU(), wrong])


@pytest.mark.parametrize(
    ("layer", "x_shape", "wrong"),
    [
        (Dense(3), (4,), (2, 5)),
        (Dense(3), (4,), (2, 3, 4)),
        (Conv2d(3), (4, 4, 2), (2, 4, 4, 3)),
        (Conv2d(3), (4, 4, 2), (4, 4, 2)),
        (Conv2d(3, padding=0), (4, 4, 2), (2, 4, 2, 2)),
        (BatchNorm(), (4, 4, 1), (2, 4, 4, 3)),
        (MaxPool(3), (4, 4, 2), (2, 4, 2, 2)),
    ],
)
def test_an_input_that_does_not_fit_the_parameters(layer, x_shape, wrong):
    packed, _, _ = build(layer, x_shape)
    with pytest.raises(ValueError, match=f"^{type(layer).__name__}: .*needs an input"):
        layer.forward(packed.params, np.zeros(wrong), train=True)


@pytest.mark.parametrize("layer", [Sequential([ReLU()]), Residual(ReLU())])
def test_no_backward_after_evaluation(layer):
    _, ctx = layer.forward({"0": {}, "body": {}}, np.ones((2, 3)), train=False)
    with pytest.raises(ValueError, match="train=True"):
        layer.backward({"0": {}, "body": {}}, ctx, np.ones((2, 3)), {"0": {}, "body": {}})
