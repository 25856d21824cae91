"""What a codec is: it turns a gradient vector into few bytes and back, and knows no transport."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from hpcdl.array import Array

State: TypeAlias = dict[str, Array]
"""What a codec remembers from step to step, by name; empty for most."""

Payload: TypeAlias = Array
"""What goes over the wire: a 1-D uint8 array."""


class Codec(Protocol):
    """A lossy code for vectors of float32 or float64.

    The length of a payload follows from the length and dtype of the vector alone, so that the
    receiver knows it beforehand and no sizes are exchanged. State in, state out: a codec keeps
    nothing itself, so a checkpoint sees all of it.
    """

    @property
    def summable(self) -> bool:
        """May payloads, viewed as `payload_dtype`, be added, and the sum be decoded?"""

    @property
    def payload_dtype(self) -> Any:
        """The dtype in which summable payloads are added; uint8 for all others."""

    @property
    def sparse(self) -> bool:
        """Does a payload hold few of the elements, so that a sum of several needs a longer one?"""

    @property
    def unbiased(self) -> bool:
        """Is the mean of what is decoded, over the random numbers, the vector that was encoded?

        A codec that is not needs error feedback (`hpcdl.compression.ErrorFeedback`).
        """

    def payload_bytes(self, n: int, dtype: Any) -> int:
        """Return the length of the payload of a vector of ``n`` elements.

        Raises:
            TypeError: ``dtype`` is neither float32 nor float64.
        """

    def init(self, n: int, dtype: Any, xp: Any = np) -> State:
        """Return the state before the first step.

        Args:
            n: length of the vectors to come.
            dtype: their dtype.
            xp: the namespace whose arrays they are, numpy or cupy.
        """

    def encode(self, x: Array, state: State, rng: np.random.Generator) -> tuple[Payload, State]:
        """Encode a vector.

        Args:
            x: 1-D array of float32 or float64; left as it is.
            state: from `init` or the last call. It is used up: its arrays may be overwritten.
            rng: where random numbers come from.

        Returns:
            The payload, uint8 (payload_bytes(x.size, x.dtype),), and the new state.

        Raises:
            TypeError: ``x`` is of another dtype.
            ValueError: ``x`` is not 1-D.
        """

    def decode(self, payload: Payload, out: Array) -> None:
        """Add what a payload stands for to ``out``.

        Args:
            payload: uint8, as `encode` made it from a vector like ``out``.
            out: 1-D array of float32 or float64.

        Raises:
            TypeError: ``out`` is of another dtype.
            ValueError: ``out`` is not 1-D, or the payload is not as long as it has to be.
        """


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """Return a dtype that codecs take.

    Raises:
        TypeError: it is neither float32 nor float64.
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.name not in ("float32", "float64"):
        raise TypeError(f"dtype: is {kind.name}; a codec takes float32 or float64")
    return kind


def check_vector(name: str, x: Array) -> None:
    """Check that an array can be encoded, or decoded into.

    Raises:
        TypeError: its dtype is neither float32 nor float64.
        ValueError: it is not 1-D.
    """
    float_dtype(x.dtype)
    if x.ndim != 1:
        raise ValueError(f"{name}: has shape {tuple(x.shape)}; a codec takes 1-D arrays")


def check_payload(codec: Codec, payload: Payload, out: Array) -> None:
    """Check the arguments of a `Codec.decode`.

    Raises:
        TypeError: the dtype of ``out`` is neither float32 nor float64, or the payload's not uint8.
        ValueError: ``out`` is not 1-D, or the payload is not as long as it has to be.
    """
    check_vector("out", out)
    if payload.dtype != np.uint8:
        raise TypeError(f"payload: has dtype {payload.dtype}; needs uint8")
    needed = codec.payload_bytes(int(out.size), out.dtype)
    if payload.shape != (needed,):
        raise ValueError(
            f"payload: has shape {tuple(payload.shape)}; {codec} packs {out.size} elements of "
            f"{out.dtype} into ({needed},)"
        )
