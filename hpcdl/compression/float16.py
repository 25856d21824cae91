"""Half precision: 16 bits for each value, and payloads that can be added on their way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.compression.codec import Payload, State, check_payload, check_vector, float_dtype


@dataclass(frozen=True)
class Float16:
    """Values rounded to float16 (mixed precision: Micikevicius et al. 2018).

    The relative error of a value is at most 2^-11 from 6.1e-5 up; below that its absolute error is
    at most 3.0e-8. Beyond 65504 it becomes infinite; NaN stays NaN. Payloads are summed in float16,
    so their sum is held to the same limits.
    """

    summable: ClassVar[bool] = True
    payload_dtype: ClassVar[Any] = np.float16
    sparse: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False

    def payload_bytes(self, n: int, dtype: Any) -> int:
        """See `Codec.payload_bytes`."""
        float_dtype(dtype)
        return 2 * n

    def init(self, n: int, dtype: Any, xp: Any = np) -> State:
        """See `Codec.init`; there is no state."""
        return {}

    def encode(self, x: Array, state: State, rng: np.random.Generator) -> tuple[Payload, State]:
        """See `Codec.encode`; no random numbers are drawn."""
        check_vector("x", x)
        xp = namespace(x)
        with np.errstate(over="ignore"):
            return x.astype(xp.float16).view(xp.uint8), state

    def decode(self, payload: Payload, out: Array) -> None:
        """See `Codec.decode`."""
        check_payload(self, payload, out)
        out += payload.view(namespace(out).float16)
