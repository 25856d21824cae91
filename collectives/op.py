"""Reduction operations: commutative and associative, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Op:
    """An elementwise reduction.

    Attributes:
        name: how it is called, as in MPI without the prefix.
        function: ``function(xp, accumulator, incoming)`` updates ``accumulator`` in place;
            ``xp`` is the namespace of both arrays (numpy or cupy).
    """

    name: str
    function: Callable[[Any, Any, Any], Any]

    def __call__(self, xp: Any, accumulator: Any, incoming: Any) -> None:
        """Reduce ``incoming`` into ``accumulator``, in place."""
        self.function(xp, accumulator, incoming)

    def __repr__(self) -> str:
        return self.name


SUM = Op("SUM", lambda xp, a, b: xp.add(a, b, out=a))
PROD = Op("PROD", lambda xp, a, b: xp.multiply(a, b, out=a))
MIN = Op("MIN", lambda xp, a, b: xp.minimum(a, b, out=a))
MAX = Op("MAX", lambda xp, a, b: xp.maximum(a, b, out=a))

OPS = {op.name: op for op in (SUM, PROD, MIN, MAX)}
"""The operations that ship, by name."""
