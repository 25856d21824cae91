"""QSGD: few bits for each value, by unbiased stochastic rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.compression.bits import pack, packed_bytes, unpack
from hpcdl.compression.codec import Payload, State, check_payload, check_vector, float_dtype

# Values that are encoded at a time on the host, few enough for the cache.
BLOCK = 1 << 14


@dataclass(frozen=True)
class QSGD:
    """Quantisation by stochastic rounding (Alistarh et al. 2017).

    The vector is cut into buckets. With M a bucket's scale and s = 2^(bits - 1) - 1 levels, a
    value v becomes M sgn(v) l / s, where l is one of the two integers next to s |v| / M, chosen at
    random so that the mean is v. The variance of a bucket of d values is at most
    min(d / s^2, sqrt(d) / s) |v|^2.

    The payload holds the scales, in the dtype of the vector, and then the signed levels, ``bits``
    each. A bucket with an infinity or a NaN in it is decoded as NaN throughout.

    Attributes:
        bits: for each value, 2 to 8.
        bucket: values that share a scale, at least 1; a shorter vector is one bucket.
        norm: "max": M is the largest magnitude, as in the paper's experiments. "l2": the Euclidean
            norm, as in its theory; the levels are then further apart, and with 4 bits the variance
            of a bucket of 512 normal values is 40 times as large.

    Raises:
        ValueError: a value is out of range.
    """

    bits: int = 4
    bucket: int = 512
    norm: Literal["max", "l2"] = "max"

    summable: ClassVar[bool] = False
    payload_dtype: ClassVar[Any] = np.uint8
    sparse: ClassVar[bool] = False
    unbiased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bits not in range(2, 9):
            raise ValueError(f"bits={self.bits!r}: QSGD takes 2 to 8")
        if self.bucket not in range(1, 2**31):
            raise ValueError(f"bucket={self.bucket!r}: QSGD needs at least 1 value in a bucket")
        if self.norm not in ("max", "l2"):
            raise ValueError(f"norm={self.norm!r}: QSGD takes 'max' or 'l2'")

    @property
    def levels(self) -> int:
        """The number s of levels beside zero, of either sign."""
        return (1 << (self.bits - 1)) - 1

    def payload_bytes(self, n: int, dtype: Any) -> int:
        """See `Codec.payload_bytes`."""
        return self._buckets(n) * float_dtype(dtype).itemsize + packed_bytes(n, self.bits)

    def init(self, n: int, dtype: Any, xp: Any = np) -> State:
        """See `Codec.init`; there is no state."""
        return {}

    def encode(self, x: Array, state: State, rng: np.random.Generator) -> tuple[Payload, State]:
        """See `Codec.encode`."""
        check_vector("x", x)
        xp = namespace(x)
        n = int(x.size)
        width = self._width(n)
        scales = xp.empty(self._buckets(n), x.dtype)
        codes = xp.empty(n, xp.uint8)
        block = max(1, BLOCK // width if xp is np else scales.size)  # buckets at a time
        for first in range(0, scales.size, block):
            values = slice(first * width, (first + block) * width)
            self._quantise(x[values], rng, scales[first : first + block], codes[values])
        return xp.concatenate((scales.view(xp.uint8), pack(codes, self.bits))), state

    def decode(self, payload: Payload, out: Array) -> None:
        """See `Codec.decode`."""
        check_payload(self, payload, out)
        xp = namespace(out)
        n = int(out.size)
        split = self._buckets(n) * out.dtype.itemsize
        scales = payload[:split].view(out.dtype)
        codes = unpack(payload[split:], n, self.bits)
        table = (xp.arange(1 << self.bits) - self.levels) / self.levels
        values = table.astype(out.dtype)[codes]
        values *= xp.repeat(scales, self._width(n))[:n]
        out += values

    def _buckets(self, n: int) -> int:
        return -(-n // self._width(n))

    def _width(self, n: int) -> int:
        """Return the values of a bucket of a vector (n,): no more than it has."""
        return max(1, min(self.bucket, n))

    def _quantise(self, x: Array, rng: np.random.Generator, scales: Array, codes: Array) -> None:
        """Set the scales (buckets,) and the codes uint8 (n,), 0 .. 2 s, of some buckets x (n,)."""
        xp = namespace(x)
        n = int(x.size)
        width = min(self.bucket, n)  # a part of a vector is cut where buckets end
        padded = xp.zeros(scales.size * width, x.dtype)
        exact = padded[:n]
        xp.abs(x, out=exact)
        scales[...] = self._scale(padded.reshape(-1, width))
        level = xp.floor(exact)
        exact -= level
        # Compared, not added and rounded: so a zero stays zero and a whole level what it is.
        level += xp.asarray(rng.random(n, x.dtype)) < exact
        xp.copysign(level, x, out=level)
        level += self.levels
        codes[...] = level  # whole numbers: the cast is exact

    def _scale(self, rows: Array) -> Array:
        """Scale magnitudes (buckets, bucket) to 0 .. s in place and return the scales (buckets,).

        A bucket that is not finite gets the scale NaN and zeros.
        """
        xp = namespace(rows)
        scales = rows.max(axis=1)
        broken = ~xp.isfinite(scales)
        rows[broken] = 0
        scales[broken] = xp.nan
        # By the largest first: so nothing overflows, and no quotient is above 1.
        rows /= xp.where(scales > 0, scales, xp.ones_like(scales))[:, None]
        if self.norm == "l2":
            ratio = xp.sqrt((rows * rows).sum(axis=1))
            rows /= xp.maximum(ratio, 1)[:, None]
            with np.errstate(over="ignore"):
                scales *= xp.maximum(ratio, 1)
            scales[~xp.isfinite(scales)] = xp.nan
        rows *= self.levels
        return scales
