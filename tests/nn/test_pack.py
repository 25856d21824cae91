"""Flat vectors and the views into them."""

import numpy as np
import pytest

from hpcdl.nn import BatchNorm, Buffer, Conv2d, Dense, Flatten, ReLU, Residual, Sequential, pack

MODEL = Sequential(
    [Conv2d(2), Residual(Sequential([BatchNorm(), ReLU()]), ReLU()), Flatten(), Dense(3)]
)


def params(seed=0):
    return MODEL.init(np.random.default_rng(seed), (2, 3, 1))[1]


def test_names_places_and_shapes():
    packed = pack(params(), np.float32)
    assert packed.slices == {
        "0.weight": (0, 18, (3, 3, 1, 2)),
        "0.bias": (18, 20, (2,)),
        "1.body.0.gamma": (20, 22, (2,)),
        "1.body.0.beta": (22, 24, (2,)),
        "3.weight": (24, 60, (12, 3)),
        "3.bias": (60, 63, (3,)),
    }
    assert packed.buffer_slices == {"1.body.0.mean": (0, 2, (2,)), "1.body.0.var": (2, 4, (2,))}
    assert packed.vector.shape == (63,)
    assert packed.buffers.tolist() == [0, 0, 1, 1]
    assert packed.vector.dtype == packed.buffers.dtype == np.float32


def test_values_are_those_of_init():
    tree = params()
    packed = pack(tree, np.float64)
    assert np.array_equal(packed.params["0"]["weight"], tree["0"]["weight"])
    assert np.array_equal(packed.params["3"]["weight"], tree["3"]["weight"])
    assert np.array_equal(packed.params["1"]["body"]["0"]["var"], np.ones(2))


def test_leaves_are_contiguous_views():
    packed = pack(params(), np.float64)
    packed.vector[...] = np.arange(63)
    packed.buffers[...] = -1
    assert packed.params["0"]["bias"].tolist() == [18, 19]
    assert packed.params["3"]["weight"][1].tolist() == [27, 28, 29]
    assert packed.params["1"]["body"]["0"]["mean"].tolist() == [-1, -1]
    packed.params["3"]["bias"][...] = 7
    assert packed.vector[60:].tolist() == [7, 7, 7]
    assert packed.params["0"]["weight"].flags.c_contiguous
    assert np.shares_memory(packed.params["0"]["weight"], packed.vector)


def test_gradients_have_the_same_tree_without_buffers():
    packed = pack(params(), np.float32)
    grads, tree = packed.grads_like()
    assert grads.shape == packed.vector.shape
    assert grads.dtype == np.float32
    assert not grads.any()
    assert set(tree) == {"0", "1", "2", "3"}
    assert tree["2"] == {}
    assert tree["1"]["shortcut"] == {}
    assert set(tree["1"]["body"]["0"]) == {"gamma", "beta"}
    tree["0"]["bias"][...] = 3
    assert grads.sum() == 6


def test_a_vector_of_ones_own():
    packed = pack(params(), np.float64)
    shared = np.zeros(100)
    packed.views(shared[:63])["3"]["bias"][...] = 1
    assert shared.nonzero()[0].tolist() == [60, 61, 62]
    with pytest.raises(ValueError, match=r"vector: needs shape \(63,\), got \(100,\)"):
        packed.views(shared)


def test_the_tree_that_came_in_is_left_alone():
    tree = params()
    pack(tree, np.float64).vector[...] = 5
    assert isinstance(tree["1"]["body"]["0"]["mean"], Buffer)
    assert np.array_equal(tree["0"]["weight"], params()["0"]["weight"])


def test_nothing_to_pack():
    packed = pack({"0": {}, "1": {}}, np.float32)
    assert packed.vector.shape == packed.buffers.shape == (0,)
    assert packed.params == {"0": {}, "1": {}}


def test_refusals():
    with pytest.raises(TypeError, match="dtype: needs a floating-point type, got int64"):
        pack({}, np.int64)
    with pytest.raises(ValueError, match=r"dot, got 'a\.b'"):
        pack({"a.b": np.zeros(1)}, np.float64)
    with pytest.raises(TypeError, match=r"params\['a\.b'\]: needs a numpy array, got list"):
        pack({"a": {"b": [1.0]}}, np.float64)
