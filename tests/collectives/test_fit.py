from math import inf, nan

import numpy as np
import pytest

from collectives.fit import CONFIDENCE, Samples, fit, student_t
from collectives.model import Model

TRUE = Model(latency=1.3e-6, byte_time=1.7e-10, reduce_time=6e-11, overhead=4e-7, gap=9e-7)
SIZES = [8 << k for k in range(20)]  # 8 B .. 4 MiB


def samples(model=TRUE, noise=0.0, seed=0, sizes=SIZES):
    """Synthetic times with a relative error."""
    rng = np.random.default_rng(seed)

    def pairs(lengths, seconds):
        return [(b, seconds(b) * float(rng.normal(1, noise))) for b in lengths]

    short = [8, 32, 128, 512] * 3
    return Samples(
        messages=pairs(sizes, model.message),
        sums=pairs(sizes, lambda b: model.message(b) + b * model.reduce_time),
        sends=pairs(short, lambda b: model.overhead),
        bursts=pairs(short, lambda b: max(model.overhead + b * model.byte_time, model.gap)),
    )


def parameters(model):
    return np.array([model.latency, model.byte_time, model.reduce_time, model.overhead, model.gap])


@pytest.mark.parametrize(
    "model", [TRUE, Model(5e-7, 1.5e-10, 1.5e-10, 1e-6), Model(2e-5, 8e-9, 1e-10, 3e-6, 1e-5)]
)
def test_exact_times_give_the_parameters(model):
    found = fit(samples(model))
    gap = max(model.gap, model.overhead + 170 * model.byte_time)
    expected = parameters(model) if model.gap else [*parameters(model)[:4], gap]
    assert parameters(found.model) == pytest.approx(expected, rel=0.02)
    assert found.residual < 1e-9


def test_times_with_errors_give_the_parameters_within_two_per_cent():
    for seed in range(10):
        found = fit(samples(noise=0.005, seed=seed))
        assert parameters(found.model) == pytest.approx(parameters(TRUE), rel=0.02)
        assert 0.003 < found.residual < 0.007


def test_short_messages_count():
    """Absolute least squares would get the latency wrong by far: here one long time is off."""
    messages = [(b, TRUE.message(b)) for b in SIZES]
    messages[-1] = (messages[-1][0], 1.05 * messages[-1][1])
    found = fit(Samples(messages)).model
    assert found.latency == pytest.approx(TRUE.message(0), rel=0.02)
    assert found.byte_time == pytest.approx(TRUE.byte_time, rel=0.02)


def test_the_intervals_hold_the_parameters_as_often_as_they_say():
    names = ("latency", "byte_time", "reduce_time", "overhead", "gap")
    held = dict.fromkeys(names, 0)
    for seed in range(300):
        found = fit(samples(noise=0.02, seed=seed))
        for name in names:
            low, high = found.intervals[name]
            held[name] += low <= getattr(TRUE, name) <= high
    for name in names:
        assert CONFIDENCE - 0.05 < held[name] / 300 <= 1.0


def test_without_samples_of_it_a_parameter_is_0():
    found = fit(Samples(samples().messages))
    assert found.model.latency == pytest.approx(TRUE.message(0), rel=1e-9)
    assert (found.model.reduce_time, found.model.overhead, found.model.gap) == (0, 0, 0)
    assert found.intervals["gap"] == (0, 0)


def test_no_parameter_is_negative():
    # Longer messages that are faster, and sums that cost nothing but noise.
    found = fit(Samples([(8, 2e-6), (64, 1.9e-6), (512, 1.8e-6), (4096, 1.7e-6)])).model
    assert found.byte_time == 0
    assert found.latency == pytest.approx(1.8e-6, rel=0.05)
    messages = [(b, TRUE.message(b)) for b in SIZES]
    faster = [(b, 0.99 * t) for b, t in messages]
    assert fit(Samples(messages, sums=faster)).model.reduce_time == 0
    # An overhead at both ends that is more than the whole message.
    found = fit(Samples(messages, sends=[(8, 1e-3)] * 5)).model
    assert found.latency == 0
    assert found.overhead == pytest.approx(TRUE.message(0) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(8, 1e-6), (16, 1e-6)], "messages: of 2 lengths; needs at least 3"),
        ([(8, 1e-6)] * 9, "messages: of 1 lengths; needs at least 3"),
        ([(8, 0.0)], "messages: 0.0 s for 8 bytes; needs a length"),
        ([(-8, 1e-6)], "messages: 1e-06 s for -8 bytes"),
        ([(8, inf)], "messages: inf s for 8 bytes"),
        ([(8, nan)], "messages: nan s for 8 bytes"),
    ],
)
def test_samples_out_of_range(pairs, message):
    with pytest.raises(ValueError, match=message):
        fit(Samples(pairs))


@pytest.mark.parametrize(
    ("freedom", "value"), [(3, 3.182), (5, 2.571), (10, 2.228), (20, 2.086), (1000, 1.962)]
)
def test_the_quantiles_are_those_of_the_tables(freedom, value):
    assert student_t(freedom) == pytest.approx(value, rel=0.01)
