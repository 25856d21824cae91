"""Top-k: only the largest values travel, each with its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.compression.codec import Payload, State, check_payload, check_vector, float_dtype


@dataclass(frozen=True)
class TopK:
    """The k = max(1, round(density n)) values of largest magnitude (Aji & Heafield 2017).

    Of equal magnitudes those of lower index go first, so that the choice is always the same. It is
    a contraction, |x - C(x)|^2 <= (1 - k/n) |x|^2, but it is biased: use it inside
    `ErrorFeedback`.

    The payload holds the k values, in the dtype of the vector, and then their indices, int32, in
    ascending order. An infinity or a NaN counts as the largest magnitude, and so is sent as it is.

    Attributes:
        density: share of the values that are sent, above 0 and at most 1.

    Raises:
        ValueError: ``density`` is out of range.
    """

    density: float = 0.01

    summable: ClassVar[bool] = False
    payload_dtype: ClassVar[Any] = np.uint8
    sparse: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.density <= 1:
            raise ValueError(f"density={self.density!r}: TopK needs 0 < density <= 1")

    def kept(self, n: int) -> int:
        """Return the number k of values that are sent of ``n``.

        Raises:
            ValueError: ``n`` does not fit an int32 index.
        """
        if n > 2**31 - 1:
            raise ValueError(f"n={n}: TopK sends int32 indices; needs at most {2**31 - 1}")
        return min(n, max(1, round(self.density * n)))

    def payload_bytes(self, n: int, dtype: Any) -> int:
        """See `Codec.payload_bytes`."""
        return self.kept(n) * (float_dtype(dtype).itemsize + 4)

    def init(self, n: int, dtype: Any, xp: Any = np) -> State:
        """See `Codec.init`; there is no state."""
        return {}

    def encode(self, x: Array, state: State, rng: np.random.Generator) -> tuple[Payload, State]:
        """See `Codec.encode`; no random numbers are drawn."""
        check_vector("x", x)
        xp = namespace(x)
        indices = self._largest(x)
        values = x[indices]
        return xp.concatenate((values.view(xp.uint8), indices.view(xp.uint8))), state

    def decode(self, payload: Payload, out: Array) -> None:
        """See `Codec.decode`."""
        check_payload(self, payload, out)
        xp = namespace(out)
        split = self.kept(int(out.size)) * out.dtype.itemsize
        out[payload[split:].view(xp.int32)] += payload[:split].view(out.dtype)

    def _largest(self, x: Array) -> Array:
        """Return the indices of the largest magnitudes, int32 (k,), ascending."""
        xp = namespace(x)
        k = self.kept(int(x.size))
        size = xp.abs(x)
        size[xp.isnan(size)] = xp.inf
        if k == 0:
            return xp.empty(0, xp.int32)
        least = xp.partition(size, x.size - k)[x.size - k]
        above = xp.flatnonzero(size > least)
        equal = xp.flatnonzero(size == least)[: k - above.size]
        return xp.sort(xp.concatenate((above, equal))).astype(xp.int32)
