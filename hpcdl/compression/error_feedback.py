"""Error feedback: what a codec drops is kept and added to the next vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.compression.codec import Codec, Payload, State, check_vector

RESIDUAL = "residual"
INNER = "inner."


@dataclass(frozen=True)
class ErrorFeedback:
    """Any codec with a memory of its own errors (Seide et al. 2014; Stich et al. 2018).

        p = x + e,    payload = encode(p),    e = p - decode(payload)

    So each value is sent sooner or later, and the sum of all that was sent and the residual e is
    the sum of all that was to be sent. A biased codec needs this to converge, and an unbiased one
    does not. The codec must be a contraction, |p - C(p)|^2 <= (1 - delta) |p|^2 in the mean with
    some delta > 0, or the residual grows without bound: QSGD with 2 bits is none.

    The state holds "residual", of the shape and dtype of the vector, and the codec's own state. An
    infinity or a NaN makes the residual NaN at its place, for good.

    Attributes:
        codec: the codec whose errors are kept.
    """

    codec: Codec

    @property
    def summable(self) -> bool:
        """See `Codec.summable`."""
        return self.codec.summable

    @property
    def payload_dtype(self) -> Any:
        """See `Codec.payload_dtype`."""
        return self.codec.payload_dtype

    @property
    def sparse(self) -> bool:
        """See `Codec.sparse`."""
        return self.codec.sparse

    @property
    def unbiased(self) -> bool:
        """False: what is sent stands for more than the vector."""
        return False

    def payload_bytes(self, n: int, dtype: Any) -> int:
        """See `Codec.payload_bytes`."""
        return self.codec.payload_bytes(n, dtype)

    def init(self, n: int, dtype: Any, xp: Any = np) -> State:
        """See `Codec.init`."""
        inner = self.codec.init(n, dtype, xp)
        return {RESIDUAL: xp.zeros(n, dtype), **{INNER + name: a for name, a in inner.items()}}

    def encode(self, x: Array, state: State, rng: np.random.Generator) -> tuple[Payload, State]:
        """See `Codec.encode`."""
        check_vector("x", x)
        residual = state[RESIDUAL]
        inner = {k.removeprefix(INNER): a for k, a in state.items() if k != RESIDUAL}
        with np.errstate(invalid="ignore"):
            residual += x
            payload, inner = self.codec.encode(residual, inner, rng)
            # decode adds, and p - d is -(-p + d): no second vector is needed.
            namespace(x).negative(residual, out=residual)
            self.codec.decode(payload, residual)
            namespace(x).negative(residual, out=residual)
        return payload, {RESIDUAL: residual, **{INNER + name: a for name, a in inner.items()}}

    def decode(self, payload: Payload, out: Array) -> None:
        """See `Codec.decode`."""
        self.codec.decode(payload, out)
