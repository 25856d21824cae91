"""The codecs that the conformance tests walk: each one that ships, and more settings of some."""

import numpy as np

from hpcdl.compression import CODECS, QSGD, ErrorFeedback, TopK

PLAIN = [
    *(make() for make in CODECS.values()),
    *(QSGD(bits) for bits in (2, 3, 8)),
    QSGD(5, bucket=7),
    QSGD(4, bucket=1),
    QSGD(4, norm="l2"),
    TopK(0.3),
    TopK(1.0),
]
CODECS_TO_TEST = [*PLAIN, *map(ErrorFeedback, PLAIN)]


def encoded(codec, x, rng):
    """Encode with a fresh state; return the payload."""
    return codec.encode(x, codec.init(x.size, x.dtype), rng)[0]


def coded(codec, x, rng):
    """Encode and decode with a fresh state."""
    out = np.zeros_like(x)
    codec.decode(encoded(codec, x, rng), out)
    return out
