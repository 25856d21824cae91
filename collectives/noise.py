"""Random delays for the simulator: messages that are late, and ranks that are interrupted.

A collective is as slow as its unluckiest rank, so that short and rare delays cost more than their
mean (Hoefler, Schneider & Lumsdaine 2010, on noise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Draw: TypeAlias = "Callable[[np.random.Generator, int], npt.NDArray[np.float64]]"


def _lognormal(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return rng.lognormal(-0.5, 1.0, n)  # of mean exp(-1/2 + 1/2)


def _pareto(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    return 1.5 * rng.pareto(2.5, n)  # of mean 1 / (2.5 - 1), before


DISTRIBUTIONS: dict[str, Draw] = {
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "lognormal": _lognormal,
    "pareto": _pareto,
    "constant": lambda rng, n: np.ones(n),
}
"""What delays are drawn from, by name; each has mean 1. Pareto's tail is the heaviest."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How much chance there is in a run. The same seed gives the same run.

    Attributes:
        message: seconds that a message is late, in the mean.
        interruption: seconds that an interruption of a rank takes, in the mean.
        chance: the probability that a rank is interrupted in a round that it takes part in.
        distribution: of both kinds of delay: a name in `DISTRIBUTIONS`.
        seed: of the random numbers.

    Raises:
        ValueError: a time is negative or not finite, the chance is none, or there is no such
            distribution.
    """

    message: float = 0.0
    interruption: float = 0.0
    chance: float = 1.0
    distribution: str = "exponential"
    seed: int = 0

    def __post_init__(self) -> None:
        for f in fields(self)[:2]:
            value = getattr(self, f.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{f.name}={value!r}: needs a finite number of seconds, >= 0")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance={self.chance!r}: needs a probability, 0 to 1")
        if self.distribution not in DISTRIBUTIONS:
            known = ", ".join(DISTRIBUTIONS)
            raise ValueError(f"distribution={self.distribution!r}: is one of {known}")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: needs 0 or more")


class NoiseSource:
    """The delays of one run, drawn one after the other."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._draw = DISTRIBUTIONS[noise.distribution]
        self._rng = np.random.default_rng(noise.seed)

    def messages(self, n: int) -> npt.NDArray[np.float64] | float:
        """Return by how many seconds each of ``n`` messages is late, float64 (n,), or 0."""
        return self._noise.message * self._draw(self._rng, n) if self._noise.message else 0.0

    def interruptions(self, n: int) -> npt.NDArray[np.float64] | float:
        """Return for how many seconds each of ``n`` ranks is held up, float64 (n,), or 0."""
        if not (self._noise.interruption and self._noise.chance):
            return 0.0
        delays = self._noise.interruption * self._draw(self._rng, n)
        if self._noise.chance < 1:
            delays *= self._rng.random(n) < self._noise.chance
        return delays
