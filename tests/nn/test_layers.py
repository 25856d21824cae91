"""What holds for each layer: walks the list of cases."""

import copy

import numpy as np
import pytest

import hpcdl.nn
from hpcdl.array import to_host
from hpcdl.nn import Layer, pack
from tests.nn.cases import CASES
from tests.nn.helpers import build, central_difference, forward_backward, relative_error
from tests.nn.strict import NAMESPACE, StrictArray

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def test_strict_arrays_are_strict():
    x = StrictArray(np.ones(3))
    for wrong in (
        lambda: np.exp(x),
        lambda: np.asarray(x),
        lambda: np.concatenate([x]),
        lambda: np.ones(3) + x,
        lambda: x + np.ones(3),
        lambda: x * np.float64(2),
        lambda: NAMESPACE.matmul(x, np.ones(3)),
        lambda: x.sum(out=np.ones(())),
    ):
        with pytest.raises(TypeError):
            wrong()
    assert float((x + 1).sum()) == 6.0


def test_each_exported_layer_has_a_case():
    exported = {
        value
        for name in hpcdl.nn.__all__
        if isinstance(value := getattr(hpcdl.nn, name), type)
        and value is not Layer
        and hasattr(value, "backward")
    }
    assert len(exported) == 9
    assert exported == {type(case.layer) for case in CASES}
    assert len({case.name for case in CASES}) == len(CASES)


@each_case
def test_gradients_agree_with_central_differences(case):
    packed, x, dy = build(case.layer, case.x_shape)
    _, dx, grads = forward_backward(case.layer, packed, x, dy)

    def loss():
        return float(np.vdot(case.layer.forward(packed.params, x, train=True)[0], dy))

    assert relative_error(dx, central_difference(loss, x)) < 1e-6
    assert relative_error(grads, central_difference(loss, packed.vector)) < 1e-6


@each_case
def test_shape_is_the_one_that_init_tells(case):
    y_shape, _ = case.layer.init(np.random.default_rng(0), case.x_shape)
    packed, x, dy = build(case.layer, case.x_shape, samples=3)
    y, dx, grads = forward_backward(case.layer, packed, x, dy)
    assert y.shape == (3, *y_shape)
    assert dx.shape == x.shape
    assert np.isfinite(grads).all()  # each gradient was written
    assert case.layer.forward(packed.params, x, train=False)[0].shape == y.shape


@each_case
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_stays(case, dtype):
    packed, x, dy = build(case.layer, case.x_shape, dtype=dtype)
    y, dx, grads = forward_backward(case.layer, packed, x, dy)
    evaluated, _ = case.layer.forward(packed.params, x, train=False)
    assert {y.dtype, dx.dtype, grads.dtype, evaluated.dtype} == {np.dtype(dtype)}


@each_case
def test_float32_is_near_float64(case):
    # One way up: values that float32 holds exactly, so that only the arithmetic differs.
    single = build(case.layer, case.x_shape, dtype=np.float32)
    double = build(case.layer, case.x_shape)
    double[0].vector[...] = single[0].vector
    got = forward_backward(case.layer, *single)
    want = forward_backward(
        case.layer, double[0], *(array.astype(np.float64) for array in single[1:])
    )
    for a, b in zip(got, want, strict=True):
        assert relative_error(a, b) < 2e-5


@each_case
def test_empty_batch(case):
    packed, x, dy = build(case.layer, case.x_shape, samples=0)
    state = packed.buffers.copy()
    y, dx, grads = forward_backward(case.layer, packed, x, dy)
    assert y.shape == dy.shape
    assert dx.shape == x.shape
    assert not grads.any()
    assert np.array_equal(packed.buffers, state)
    assert case.layer.forward(packed.params, x, train=False)[0].shape == dy.shape


@each_case
def test_evaluation_keeps_nothing_and_changes_nothing(case):
    packed, x, _ = build(case.layer, case.x_shape)
    state = packed.buffers.copy()
    y, ctx = case.layer.forward(packed.params, x, train=False)
    assert ctx is None
    assert np.array_equal(packed.buffers, state)
    parts = [case.layer.forward(packed.params, x[i : i + 1], train=False)[0] for i in range(4)]
    np.testing.assert_allclose(np.concatenate(parts), y, rtol=1e-12, atol=1e-13)


@each_case
def test_nothing_is_stored_on_the_layer_and_no_argument_is_changed(case):
    packed, x, dy = build(case.layer, case.x_shape)
    before = copy.deepcopy((case.layer, x, dy, packed.vector))
    want = [copy.deepcopy(forward_backward(case.layer, packed, x * k, dy * k)) for k in (1.0, -2.0)]
    # Two microbatches in flight, backward in the order in which they came, the first one twice.
    flights = [case.layer.forward(packed.params, x * k, train=True) for k in (1.0, -2.0)]
    for number, k in ((0, 1.0), (1, -2.0), (0, 1.0)):
        grads, tree = packed.grads_like()
        dx = case.layer.backward(packed.params, flights[number][1], dy * k, tree)
        assert np.array_equal(flights[number][0], want[number][0])
        assert np.array_equal(dx, want[number][1])
        assert np.array_equal(grads, want[number][2])
    assert case.layer == before[0]
    for array, old in zip((x, dy, packed.vector), before[1:], strict=True):
        assert np.array_equal(array, old)


@each_case
def test_init_depends_on_nothing_but_the_generator(case):
    first, again, other = (
        pack(case.layer.init(np.random.default_rng(seed), case.x_shape)[1], np.float64).vector
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    random = any(name.endswith("weight") for name in build(case.layer, case.x_shape)[0].slices)
    assert np.array_equal(first, other) != random


@each_case
def test_inputs_that_are_not_contiguous(case):
    packed, x, dy = build(case.layer, case.x_shape)
    want = forward_backward(case.layer, packed, x, dy)
    # Every second element of a larger array, in another order of the axes in memory.
    strided = [np.asfortranarray(np.repeat(array, 2, axis=-1))[..., ::2] for array in (x, dy)]
    got = forward_backward(case.layer, packed, *strided)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@each_case
def test_every_operation_goes_through_the_namespace_of_the_array(case):
    packed, x, dy = build(case.layer, case.x_shape)
    state = packed.buffers.copy()
    want = forward_backward(case.layer, packed, x, dy)
    want_eval, _ = case.layer.forward(packed.params, x, train=False)
    rng = np.random.default_rng(0)
    strict = pack(case.layer.init(rng, case.x_shape)[1], np.float64, NAMESPACE)
    assert isinstance(strict.vector, StrictArray)
    strict.vector.value[...] = packed.vector
    strict.buffers.value[...] = state
    grads, tree = strict.grads_like()
    y, ctx = case.layer.forward(strict.params, StrictArray(x), train=True)
    dx = case.layer.backward(strict.params, ctx, StrictArray(dy), tree)
    evaluated, _ = case.layer.forward(strict.params, StrictArray(x), train=False)
    for got, value in zip((y, dx, grads, evaluated), (*want, want_eval), strict=True):
        assert isinstance(got, StrictArray)
        np.testing.assert_allclose(to_host(got), value, rtol=1e-12, atol=1e-12)
