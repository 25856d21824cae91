"""Learning-rate schedules: functions of the step, which counts from 0.

Each begins with a linear warm-up (Goyal et al. 2017): over the first `warmup` steps the rate grows
by equal amounts, from lr / warmup at step 0 to lr at step warmup - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Constant:
    """The same rate at each step after the warm-up.

    Attributes:
        lr: the rate, at least 0.
        warmup: number of steps of warm-up.

    Raises:
        ValueError: a value is out of range.
    """

    lr: float
    warmup: int = 0

    def __post_init__(self) -> None:
        _check("Constant", self.lr, self.warmup)

    def __call__(self, step: int) -> float:
        """The rate at `step`."""
        return self.lr * _warm(step, self.warmup)


@dataclass(frozen=True)
class WarmupCosine:
    """Half a wave of cosine, from `lr` after the warm-up to `final_lr` (Loshchilov & Hutter 2017).

    Attributes:
        lr: the highest rate, at least 0.
        steps: the step at which `final_lr` is reached, more than `warmup`; it stays there.
        warmup: number of steps of warm-up.
        final_lr: in 0..lr.

    Raises:
        ValueError: a value is out of range.
    """

    lr: float
    steps: int
    warmup: int = 0
    final_lr: float = 0.0

    def __post_init__(self) -> None:
        _check("WarmupCosine", self.lr, self.warmup)
        if self.steps <= self.warmup:
            raise ValueError(
                f"WarmupCosine: steps must be more than warmup={self.warmup}, got {self.steps}"
            )
        if not 0.0 <= self.final_lr <= self.lr:
            raise ValueError(
                f"WarmupCosine: final_lr must be in 0..lr={self.lr}, got {self.final_lr}"
            )

    def __call__(self, step: int) -> float:
        """The rate at `step`."""
        if step < self.warmup:
            return self.lr * _warm(step, self.warmup)
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.final_lr + (self.lr - self.final_lr) * (1.0 + cos(pi * done)) / 2.0


@dataclass(frozen=True)
class WarmupStep:
    """The rate is multiplied by `gamma` at each milestone.

    Attributes:
        lr: the rate before the first milestone, at least 0.
        milestones: steps, ascending; kept as a tuple. The rate of a milestone itself is the new
            one.
        gamma: the factor, in 0..1.
        warmup: number of steps of warm-up.

    Raises:
        ValueError: a value is out of range.
    """

    lr: float
    milestones: Sequence[int]
    gamma: float = 0.1
    warmup: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "milestones", tuple(self.milestones))
        _check("WarmupStep", self.lr, self.warmup)
        if any(b <= a for a, b in zip(self.milestones, self.milestones[1:], strict=False)):
            raise ValueError(f"WarmupStep: milestones must ascend, got {self.milestones}")
        if self.milestones and self.milestones[0] < 0:
            raise ValueError(f"WarmupStep: milestones must be at least 0, got {self.milestones}")
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"WarmupStep: gamma must be in 0..1, got {self.gamma}")

    def __call__(self, step: int) -> float:
        """The rate at `step`."""
        passed = sum(milestone <= step for milestone in self.milestones)
        return self.lr * self.gamma**passed * _warm(step, self.warmup)


def _warm(step: int, warmup: int) -> float:
    """The share of the full rate that the warm-up allows."""
    return 1.0 if step >= warmup else (step + 1) / warmup


def _check(name: str, lr: float, warmup: int) -> None:
    """Refuse values that no schedule can have."""
    if not lr >= 0.0:
        raise ValueError(f"{name}: lr must be at least 0, got {lr}")
    if warmup < 0:
        raise ValueError(f"{name}: warmup must be at least 0, got {warmup}")
