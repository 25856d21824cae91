"""Which of two ways is the faster one, by runs that took turns.

Runs are not drawn from a normal distribution: a few take many times as long as the rest. So all
here goes by their order.
"""

from __future__ import annotations

from math import floor, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
"""The probability with which an interval holds the median, were runs independent."""

Runs = npt.NDArray[np.float64]


def median_interval(seconds: Runs) -> tuple[float, float]:
    """Return between which of the runs the median lies with probability `CONFIDENCE`.

    The number of runs that are faster than the median is binomial; it is taken to be normal. Of
    ten runs or fewer that gives the fastest and the slowest.

    Args:
        seconds: float64 (runs,), at least one.
    """
    ordered = np.sort(seconds)
    n = ordered.size
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * sqrt(n) / 2
    out = max(0, floor(n / 2 - reach) - 1)
    return float(ordered[out]), float(ordered[n - 1 - out])


def clearly_faster(one: Runs, other: Runs) -> bool:
    """Return whether one way is faster than another by more than the spread of its runs.

    Three quarters of its runs at least, and the interval of its median, lie below the interval of
    the median of the other.

    Args:
        one: seconds, float64 (runs,), at least one.
        other: the same of the other way, from the same repetitions.
    """
    slow = max(float(np.quantile(one, 0.75)), median_interval(one)[1])
    return slow < median_interval(other)[0]
