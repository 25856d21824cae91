"""Top-k: the choice, the contraction, and error feedback to the last bit."""

import numpy as np
import pytest

from hpcdl.compression import ErrorFeedback, TopK
from tests.compression.cases import coded, encoded

RNG = np.random.default_rng(0)  # top-k draws nothing from it


@pytest.mark.parametrize("density", [0.001, 0.1, 0.25, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("n", [1, 2, 10, 1000])
def test_the_choice_is_that_of_a_stable_sort(density, n):
    # Small integers: there are many ties.
    x = np.random.default_rng(n).integers(-4, 5, n).astype(np.float64)
    k = max(1, round(density * n))
    chosen = np.sort(np.argsort(-np.abs(x), kind="stable")[:k])
    payload = encoded(TopK(density), x, RNG)
    assert payload[8 * k :].view(np.int32).tolist() == chosen.tolist()
    assert payload[: 8 * k].view(np.float64).tolist() == x[chosen].tolist()


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5, 1.0])
def test_it_is_a_contraction(density):
    """|x - C(x)|^2 <= (1 - k/n) |x|^2, with equality where all magnitudes are equal."""
    n, rng = 200, np.random.default_rng(3)
    k = TopK(density).kept(n)
    for x in (rng.standard_normal(n), rng.standard_cauchy(n), rng.uniform(0, 1, n)):
        rest = np.sum((x - coded(TopK(density), x, RNG)) ** 2)
        assert rest <= (1 - k / n) * np.sum(x * x)
    signs = rng.choice([-1.0, 1.0], n)
    assert np.sum((signs - coded(TopK(density), signs, RNG)) ** 2) == n - k


def test_everything_at_density_1():
    x = np.random.default_rng(0).standard_normal(50)
    assert np.array_equal(coded(TopK(1.0), x, RNG), x)


def test_bytes():
    assert TopK(0.01).payload_bytes(1000, np.float32) == 10 * (4 + 4)
    assert TopK(0.01).payload_bytes(1000, np.float64) == 10 * (8 + 4)
    assert TopK(0.01).payload_bytes(3, np.float32) == 8
    assert TopK(0.01).payload_bytes(0, np.float32) == 0
    with pytest.raises(ValueError, match="int32 indices"):
        TopK(0.01).payload_bytes(2**31, np.float32)


def test_error_feedback_to_the_last_bit():
    """Each step sent + residual is exactly x + the residual before; so is the sum of all steps."""
    codec, rng = ErrorFeedback(TopK(0.1)), np.random.default_rng(1)
    state = codec.init(100, np.float64)
    sent, given = np.zeros(100), np.zeros(100)
    for _ in range(50):
        x = rng.integers(-1000, 1000, 100) / 64  # sums of these are exact
        before = state["residual"].copy()
        payload, state = codec.encode(x, state, rng)
        out = np.zeros(100)
        codec.decode(payload, out)
        assert np.array_equal(out + state["residual"], x + before)
        sent += out
        given += x
    assert np.array_equal(sent + state["residual"], given)


def test_the_residual_stays_bounded():
    """With |x| <= 1 and a contraction by 1 - d: |e| <= 2 / d (Stich et al. 2018, lemma 3)."""
    codec, rng = ErrorFeedback(TopK(0.05)), np.random.default_rng(1)
    state = codec.init(100, np.float64)
    for _ in range(2000):
        x = rng.standard_normal(100) + 0.3
        _, state = codec.encode(x / np.linalg.norm(x), state, rng)
        assert np.linalg.norm(state["residual"]) <= 2 / 0.05


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_sent(bad):
    x = np.array([1.0, 5.0, bad, 2.0])
    assert np.array_equal(coded(TopK(0.5), x, RNG), [0, 5.0, bad, 0], equal_nan=True)
    codec = ErrorFeedback(TopK(0.5))
    _, state = codec.encode(x, codec.init(4, x.dtype), RNG)
    assert np.isnan(state["residual"]).tolist() == [False, False, True, False]


@pytest.mark.parametrize("density", [0, -0.1, 1.01, float("nan")])
def test_settings_are_checked(density):
    with pytest.raises(ValueError, match=f"density={density}: TopK needs 0 < density <= 1"):
        TopK(density)
