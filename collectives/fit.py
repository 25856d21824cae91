"""Fit the parameters of `collectives.model.Model` to measured times.

Three kinds of samples, each of a length in bytes and a time in seconds:

- a message, half of a round trip: ``L + 2 o + b G``; with its sum into the receiver's data
  ``b c`` more (the linear system of all of these gives ``L + 2 o``, G and c at once);
- a burst, one message after the other: what the sender is busy for with each is o, and they follow
  each other no closer than g (Culler et al. 1996).

Errors are relative: a length of 8 bytes counts as much as one of 4 MiB, where plain least squares
would see the long ones only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from collectives.model import Model

Pairs: TypeAlias = "Sequence[tuple[int, float]]"
Interval: TypeAlias = "tuple[float, float]"

CONFIDENCE = 0.95
"""The probability with which the intervals of a fit hold their parameter, were errors normal."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What was measured: pairs of bytes and seconds.

    Attributes:
        messages: half round trips.
        sums: half round trips of messages that are reduced into the receiver's data.
        sends: for how long the sender of a burst was busy with each of its messages.
        bursts: in which time the messages of a burst followed each other.
    """

    messages: Pairs
    sums: Pairs = ()
    sends: Pairs = ()
    bursts: Pairs = ()


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameters and how well they fit.

    Attributes:
        model: the parameters.
        residual: relative error of the predicted time of a message: the root of the mean square.
        intervals: for each parameter, within which bounds it lies with probability `CONFIDENCE`.
    """

    model: Model
    residual: float
    intervals: Mapping[str, Interval] = field(default_factory=dict)


def fit(samples: Samples) -> Fit:
    """Fit a model; a parameter of which there are no samples is 0.

    Raises:
        ValueError: messages of fewer than three lengths, or a length or a time that is none.
    """
    for name in ("messages", "sums", "sends", "bursts"):
        _check(name, getattr(samples, name))
    lengths = {b for b, _ in samples.messages}
    if len(lengths) < 3:
        raise ValueError(f"messages: of {len(lengths)} lengths; needs at least 3")
    rows = [(1.0, b, 0.0) for b, _ in samples.messages] + [(1.0, b, b) for b, _ in samples.sums]
    times = np.array([t for _, t in (*samples.messages, *samples.sums)])
    system = np.array(rows, float) / times[:, None]
    values, errors = _least_squares(system if samples.sums else system[:, :2])
    residual = float(np.sqrt(np.mean((system[:, : values.size] @ values - 1) ** 2)))
    constant, byte_time, reduce_time = (*values, 0.0)[:3]
    error_a, error_byte, error_sum = (*errors, 0.0)[:3]
    overhead, error_o = _constant(samples.sends)
    gap, error_g = _constant(samples.bursts)
    overhead = min(overhead, constant / 2)
    fitted = {
        "latency": (constant - 2 * overhead, math.hypot(error_a, 2 * error_o)),
        "byte_time": (byte_time, error_byte),
        "reduce_time": (reduce_time, error_sum),
        "overhead": (overhead, error_o),
        "gap": (gap, error_g),
    }
    return Fit(
        Model(**{name: float(value) for name, (value, _) in fitted.items()}),
        residual,
        {n: (float(max(0.0, v - e)), float(v + e)) for n, (v, e) in fitted.items()},
    )


def _check(name: str, pairs: Pairs) -> None:
    for nbytes, seconds in pairs:
        if nbytes < 0 or not (math.isfinite(seconds) and seconds > 0):
            raise ValueError(
                f"{name}: {seconds!r} s for {nbytes} bytes; needs a length of 0 or more and a "
                "finite time above 0"
            )


def _least_squares(system: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Solve ``system @ x = 1`` for x >= 0; return x and the half widths of its intervals.

    A parameter that would be negative is 0, and the others are fitted without it.
    """
    scale = np.abs(system).max(axis=0)
    system = system / np.where(scale > 0, scale, 1)
    used = np.ones(scale.size, bool)
    while True:
        part = system[:, used]
        found, *_ = np.linalg.lstsq(part, np.ones(len(system)))
        if (found >= 0).all():
            break
        used[np.flatnonzero(used)[np.argmin(found)]] = False
    values, errors = np.zeros(scale.size), np.zeros(scale.size)
    values[used] = found
    freedom = len(system) - found.size
    if freedom > 0:
        variance = float(np.sum((part @ found - 1) ** 2)) / freedom
        spread = np.sqrt(variance * np.diag(np.linalg.pinv(part.T @ part)))
        errors[used] = student_t(freedom) * spread
    return values / scale, errors / scale


def _constant(pairs: Pairs) -> tuple[float, float]:
    """Return the number that is nearest to all times, and the half width of its interval."""
    if not pairs:
        return 0.0, 0.0
    values, errors = _least_squares(1 / np.array([[t] for _, t in pairs]))
    return float(values[0]), float(errors[0])


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return how many standard errors an interval reaches to either side.

    The quantile of Student's distribution, by its expansion around the normal one (Cornish &
    Fisher 1938); right to 1 % from 3 degrees of freedom on.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    total: float = sum(term / freedom**k for k, term in enumerate(terms))
    return total
