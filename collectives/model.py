"""What a message and a sum cost: the parameters that the simulator and the selection work with.

The cost of one message of b bytes, from the moment that its sender is ready to the moment that its
receiver has it, is ``L + 2 o + b G``; summing it into the receiver's data costs ``b c`` more. With
``o = g = 0`` this is the alpha-beta-gamma model of Thakur, Rabenseifner & Gropp 2005; with them it
is near LogGP of Alexandrov, Ionescu, Schauser & Scheiman 1995 (itself LogP of Culler et al. 1993
with a gap per byte). There a message takes ``(b - 1) G``, and the next one may start
``max(g, o) + (b - 1) G`` after it; here that is ``max(o + b G, g)``: the gap is a least distance,
which long messages keep by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

PARAMETERS = ("latency", "byte_time", "reduce_time", "overhead", "gap")
"""The attributes of `Model`."""


@dataclass(frozen=True, slots=True)
class Model:
    """Costs of a network in which every rank can send and receive at once, one message at a time.

    The defaults stand for a fabric of 100 Gbit/s, and a core that sums at 10 GB/s what arrives.

    Attributes:
        latency: L (alpha): seconds on the wire, whatever the length.
        byte_time: G (beta): seconds a byte.
        reduce_time: c (gamma): seconds to reduce one byte that arrived.
        overhead: o: seconds for which a message occupies the processor, at each end.
        gap: g: the least time in seconds between two messages of one rank, in each direction.

    Raises:
        ValueError: one of them is negative or not finite.
    """

    latency: float = 2e-6
    byte_time: float = 8e-11
    reduce_time: float = 1e-10
    overhead: float = 0.0
    gap: float = 0.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{f.name}={value!r}: needs a finite number of seconds, >= 0")

    def message(self, nbytes: float) -> float:
        """Return the seconds from a sender that is ready to a receiver that has the message."""
        return self.latency + 2 * self.overhead + nbytes * self.byte_time
