"""What to time, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from collectives.collective import Collective
from collectives.op import SUM, Op
from collectives.registry import Algorithm

DTYPES = ("float32", "float64", "int32", "int64")
"""The dtypes that the library's reductions take under that name everywhere."""

LEAST = 5
"""Fewer repetitions make no median."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to time.

    Attributes:
        collective: which one.
        algorithms: of that collective.
        sizes: bytes of the buffer of a rank: of the vector that is reduced or broadcast, of all
            parts together for reduce_scatter, allgather and alltoall.
        dtype: of the elements.
        op: of the reductions.
        budget: seconds for each size.
        least: at least as many repetitions, however long they take.
        most: at most as many, however short they are.
    """

    collective: Collective
    algorithms: tuple[Algorithm, ...]
    sizes: tuple[int, ...]
    dtype: str = "float32"
    op: Op = SUM
    budget: float = 1.0
    least: int = LEAST
    most: int = 1000
