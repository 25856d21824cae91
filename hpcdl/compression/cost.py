"""Which way compressed gradients go: bytes on the wire, known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcdl.compression.codec import Codec

ROUTES = ("auto", "dense", "gather", "reencode", "sum")
"""What may be asked for; see `wire_bytes`."""


@dataclass(frozen=True)
class Choice:
    """A route, and what the user should know about it.

    Attributes:
        route: one of `ROUTES`, not "auto".
        note: why a codec that was asked for is not used; else empty.
    """

    route: str
    note: str


def slot_bytes(codec: Codec, n: int, dtype: Any) -> int:
    """Return the bytes that a payload takes on the wire: a multiple of 8, so all are aligned."""
    return -(-codec.payload_bytes(n, dtype) // 8) * 8


def wire_bytes(codec: Codec, n: int, dtype: Any, size: int) -> dict[str, float]:
    """Return the bytes that each rank sends, by route.

    Args:
        codec: the codec.
        n: length of the vector.
        dtype: its dtype.
        size: number of ranks P.

    Returns:
        "dense": 2 (P-1)/P n itemsize, an allreduce of the vector itself, at its best.
        "gather": (P-1) q(n), an allgather of payloads, with q(n) the bytes of one.
        "reencode": 2 (P-1) q(ceil(n/P)), an alltoall of encoded parts and an allgather of sums.
        "sum": 2 (P-1)/P q(n), an allreduce of the payload, at its best; summable codecs only.
    """
    others = size - 1
    part = -(-n // size)
    bytes_of = {
        "dense": 2 * others / size * n * np.dtype(dtype).itemsize,
        "gather": float(others * slot_bytes(codec, n, dtype)),
        "reencode": 2.0 * others * slot_bytes(codec, part, dtype),
    }
    if codec.summable:
        bytes_of["sum"] = 2 * others / size * codec.payload_bytes(n, dtype)
    return bytes_of


def choose_route(codec: Codec | None, n: int, dtype: Any, size: int, route: str = "auto") -> Choice:
    """Return how a vector is to be summed over the ranks.

    "auto" takes "sum" for a summable codec, and "gather" for a sparse one: a sum of sparse vectors
    is less sparse, so encoding it once more would drop most of it. For any other codec it takes
    that of "gather" and "reencode" which sends less, "gather" where they are equal, since it
    rounds once only. Where a dense allreduce sends no more than that, "auto" takes "dense", and
    says so in the note.

    Args:
        codec: the codec, or None for none.
        n: length of the vector.
        dtype: its dtype.
        size: number of ranks.
        route: one of `ROUTES`; all but "auto" are taken as they are.

    Raises:
        ValueError: there is no such route, or it does not fit the codec.
    """
    if route not in ROUTES:
        raise ValueError(f"route={route!r}: needs one of {', '.join(ROUTES)}")
    if codec is None:
        if route not in ("auto", "dense"):
            raise ValueError(f"route={route!r}: needs a codec; without one there is only 'dense'")
        return Choice("dense", "")
    sent = wire_bytes(codec, n, dtype, size)
    if route not in ("auto", *sent):
        raise ValueError(f"route={route!r}: {codec} is not summable")
    if route == "dense":
        return Choice("dense", f"{codec} is not used: a dense allreduce was asked for")
    if route != "auto":
        return Choice(route, "")

    if codec.summable:
        best = "sum"
    elif codec.sparse or sent["gather"] <= sent["reencode"]:
        best = "gather"
    else:
        best = "reencode"
    if size == 1:
        return Choice("dense", f"{codec} is not used: one rank sends nothing")
    if sent["dense"] <= sent[best]:
        return Choice(
            "dense",
            f"{codec} is not used: for {n} elements on {size} ranks it would send "
            f"{sent[best]:.0f} bytes from each rank, and a dense allreduce needs "
            f"{sent['dense']:.0f}",
        )
    return Choice(best, "")
