"""SGD against a recurrence written by hand, and against closed forms."""

import numpy as np
import pytest

from hpcdl.array import to_host
from hpcdl.optim import SGD, sgd
from tests.nn.strict import StrictArray

VARIANTS = [
    {},
    {"weight_decay": 0.1},
    {"momentum": 0.9},
    {"momentum": 0.9, "weight_decay": 0.1},
    {"momentum": 0.9, "nesterov": True},
    {"momentum": 0.8, "weight_decay": 0.1, "nesterov": True},
]


def by_hand(w, gradients, rates, momentum=0.0, weight_decay=0.0, nesterov=False):
    """One number at a time."""
    w, v = w.tolist(), [0.0] * len(w)
    for g, rate in zip(gradients, rates, strict=True):
        for i in range(len(w)):
            d = float(g[i]) + weight_decay * w[i]
            v[i] = momentum * v[i] + d
            w[i] -= rate * (d + momentum * v[i] if nesterov else v[i])
    return np.array(w)


def run(optimizer, w, gradients):
    state = optimizer.init(w)
    for step, g in enumerate(gradients):
        state = optimizer.update(w, g, state, step)
    return state


@pytest.mark.parametrize("block", [1, 3, 7, 1 << 14])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_equals_the_recurrence(monkeypatch, settings, block):
    monkeypatch.setattr(sgd, "BLOCK", block)
    rng = np.random.default_rng(0)
    w, gradients = rng.standard_normal(7), rng.standard_normal((5, 7))
    want = by_hand(w, gradients, [0.1] * 5, **settings)
    run(SGD(0.1, **settings), w, gradients)
    np.testing.assert_allclose(w, want, rtol=1e-13, atol=1e-14)


def test_the_rate_may_be_a_function_of_the_step():
    rng = np.random.default_rng(0)
    w, gradients = rng.standard_normal(3), rng.standard_normal((4, 3))
    want = by_hand(w, gradients, [1.0, 0.5, 1 / 3, 0.25], momentum=0.5)
    run(SGD(lambda step: 1 / (step + 1), momentum=0.5), w, gradients)
    np.testing.assert_allclose(w, want, rtol=1e-13)


def test_closed_form_on_a_quadratic():
    # The gradient of a w^2 / 2 is a w, so each step multiplies by 1 - lr (a + decay).
    w = np.array([1.0, -2.0])
    optimizer = SGD(0.1, weight_decay=0.5)
    for step in range(20):
        optimizer.update(w, 3.0 * w, {}, step)
    np.testing.assert_allclose(w, np.array([1.0, -2.0]) * (1 - 0.1 * 3.5) ** 20, rtol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_closed_form_of_momentum_under_a_constant_gradient(nesterov):
    # v_k = g (1 - m^k) / (1 - m); the weights are its sum, and Nesterov's are one step ahead.
    m, steps = 0.9, 30
    w = np.zeros(1)
    run(SGD(0.01, momentum=m, nesterov=nesterov), w, [np.ones(1)] * steps)
    velocities = [(1 - m**k) / (1 - m) for k in range(1, steps + 1)]
    total = sum(1 + m * v for v in velocities) if nesterov else sum(velocities)
    np.testing.assert_allclose(w, [-0.01 * total], rtol=1e-12)


def test_closed_form_of_momentum_on_a_quadratic():
    # w_{k+1} = (1 + m - lr a) w_k - m w_{k-1}: a linear recurrence with characteristic roots.
    m, lr, a, steps = 0.5, 0.1, 2.0, 25
    w = np.ones(1)
    optimizer = SGD(lr, momentum=m)
    state = optimizer.init(w)
    for step in range(steps):
        state = optimizer.update(w, a * w, state, step)
    roots = np.roots([1, -(1 + m - lr * a), m])
    # w_0 = 1, and w_{-1} = 1 as the velocity is zero at first.
    weights = np.linalg.solve([[1, 1], 1 / roots], [1, 1])
    want = (weights * roots**steps).sum().real
    np.testing.assert_allclose(w, [want], rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_in_place_and_in_its_own_type(dtype, settings):
    w, g = np.ones(10, dtype), np.full(10, 0.5, dtype)
    view, address = w[:], w.ctypes.data
    optimizer = SGD(0.1, **settings)
    state = optimizer.init(w)
    velocity = state.get("velocity")
    after = optimizer.update(w, g, state, 0)
    assert w.ctypes.data == address
    assert w.dtype == dtype
    assert (view < 1).all()
    assert (g == 0.5).all()
    assert set(after) == ({"velocity"} if settings.get("momentum") else set())
    assert after.get("velocity") is velocity
    if velocity is not None:
        assert velocity.dtype == dtype
        assert not np.shares_memory(velocity, w)


def test_views_are_updated_through():
    whole = np.zeros(6)
    SGD(1.0).update(whole[2:4], np.ones(2), {}, 0)
    assert whole.tolist() == [0, 0, -1, -1, 0, 0]


def test_no_parameters():
    w = np.zeros(0)
    optimizer = SGD(0.1, momentum=0.9, weight_decay=0.1, nesterov=True)
    assert optimizer.update(w, w.copy(), optimizer.init(w), 0)["velocity"].shape == (0,)


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_the_namespace_of_the_array(settings):
    rng = np.random.default_rng(0)
    w, gradients = rng.standard_normal(5), rng.standard_normal((3, 5))
    strict = StrictArray(w.copy())
    # A schedule may well give a numpy scalar, which strict arrays refuse.
    optimizer = SGD(lambda step: np.float64(0.1), **settings)
    state = run(optimizer, strict, [StrictArray(g) for g in gradients])
    run(SGD(0.1, **settings), w, gradients)
    assert all(isinstance(vector, StrictArray) for vector in state.values())
    np.testing.assert_allclose(to_host(strict), w, rtol=1e-14)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"lr": -0.1}, "lr must be at least 0, got -0.1"),
        ({"lr": float("nan")}, "lr must be at least 0, got nan"),
        ({"lr": 1.0, "momentum": 1.0}, "momentum must be .*less than 1, got 1.0"),
        ({"lr": 1.0, "momentum": -0.1}, "momentum must be .*, got -0.1"),
        ({"lr": 1.0, "weight_decay": -1.0}, "weight_decay must be at least 0, got -1.0"),
        ({"lr": 1.0, "nesterov": True}, "nesterov needs a momentum"),
    ],
)
def test_settings_are_checked(settings, match):
    with pytest.raises(ValueError, match=match):
        SGD(**settings)


@pytest.mark.parametrize(
    ("grads", "state", "match"),
    [
        (np.ones(4), {"velocity": np.ones(3)}, r"grads needs the shape \(3,\) .*got \(4,\)"),
        (np.ones(3, np.float32), {"velocity": np.ones(3)}, "grads needs .*got .*float32"),
        (np.ones(3), {"velocity": np.ones(2)}, r"velocity needs .*got \(2,\)"),
        (np.ones(3), {}, r"state needs a velocity, got \[\]"),
    ],
)
def test_vectors_are_checked(grads, state, match):
    with pytest.raises(ValueError, match=match):
        SGD(0.1, momentum=0.9).update(np.ones(3), grads, state, 0)
