"""Schedules against their closed forms."""

import math

import pytest

from hpcdl.optim import SGD, Constant, WarmupCosine, WarmupStep

ALL = [
    lambda lr, warmup: Constant(lr, warmup),
    lambda lr, warmup: WarmupCosine(lr, steps=50, warmup=warmup),
    lambda lr, warmup: WarmupStep(lr, milestones=(20, 30), warmup=warmup),
]


@pytest.mark.parametrize("make", ALL)
def test_warmup_is_linear_and_ends_at_the_full_rate(make):
    schedule = make(0.8, 8)
    assert [schedule(k) for k in range(8)] == pytest.approx([0.1 * k for k in range(1, 9)])
    assert schedule(8) == 0.8


@pytest.mark.parametrize("make", ALL)
def test_without_warmup_the_first_rate_is_the_full_one(make):
    assert make(0.3, 0)(0) == 0.3
    assert type(make(0.3, 0)(7)) is float


def test_constant():
    assert {Constant(0.2, 3)(k) for k in range(3, 1000)} == {0.2}


def test_cosine():
    schedule = WarmupCosine(1.0, steps=110, warmup=10, final_lr=0.2)
    for k in range(10, 111):
        # (1 + cos 2a) / 2 = cos(a)^2.
        half_angle = math.pi * (k - 10) / 200
        assert schedule(k) == pytest.approx(0.2 + 0.8 * math.cos(half_angle) ** 2, rel=1e-13)
    assert schedule(60) == pytest.approx(0.6)
    assert schedule(110) == schedule(10**6) == pytest.approx(0.2, rel=1e-15)
    # The mean over the descent is the mean of both ends.
    rates = [schedule(k) for k in range(10, 110)]
    assert (sum(rates) + 0.5 * (schedule(110) - rates[0])) / 100 == pytest.approx(0.6)


def test_steps():
    schedule = WarmupStep(1.0, milestones=[5, 9, 10], gamma=0.5)
    assert [schedule(k) for k in range(12)] == [1] * 5 + [0.5] * 4 + [0.25] + [0.125] * 2
    assert WarmupStep(0.7, ())(10**9) == 0.7
    assert hash(schedule) == hash(WarmupStep(1.0, (5, 9, 10), 0.5))


def test_milestones_count_in_the_warmup_too():
    assert WarmupStep(1.0, (2,), 0.1, warmup=4)(3) == pytest.approx(0.1)


def test_an_optimizer_takes_one():
    assert SGD(Constant(0.1)).lr(3) == 0.1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Constant(-1.0), "Constant: lr must be at least 0, got -1.0"),
        (lambda: Constant(1.0, -2), "Constant: warmup must be at least 0, got -2"),
        (lambda: WarmupCosine(1.0, 5, 5), "steps must be more than warmup=5, got 5"),
        (lambda: WarmupCosine(1.0, 5, final_lr=2.0), r"final_lr must be in 0\.\.lr=1.0, got 2.0"),
        (lambda: WarmupStep(1.0, (5, 5)), r"milestones must ascend, got \(5, 5\)"),
        (lambda: WarmupStep(1.0, (-1, 5)), r"milestones must be at least 0, got \(-1, 5\)"),
        (lambda: WarmupStep(1.0, (), gamma=1.5), r"gamma must be in 0\.\.1, got 1.5"),
    ],
)
def test_settings_are_checked(make, match):
    with pytest.raises(ValueError, match=match):
        make()
