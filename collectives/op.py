"""Reduction operations: commutative and associative, elementwise."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Op:
    """An elementwise reduction.

    Attributes:
        name: how it is called, as in MPI without the prefix.
        function: ``function(xp, first, second, out)`` stores the reduction of two arrays in
            ``out``, which is one of them; ``xp`` is their namespace (numpy or cupy). ``first``
            comes from the lower ranks where the two are exchanged between a pair of ranks.
    """

    name: str
    function: Callable[[Any, Any, Any, Any], Any]

    def __call__(self, xp: Any, first: Any, second: Any, out: Any) -> None:
        """Reduce two arrays into ``out``."""
        self.function(xp, first, second, out)

    @property
    def is_built_in(self) -> bool:
        """Whether it is one of those that ship, which have compiled kernels."""
        return OPS.get(self.name) is self

    @property
    def description(self) -> str:
        """The name; of the user's own also what tells its function from others, on all ranks."""
        if self.is_built_in:
            return self.name
        code = getattr(self.function, "__code__", None)
        where = getattr(self.function, "__qualname__", type(self.function).__name__)
        if code is None:
            return f"{self.name} ({where})"
        digest = zlib.crc32(code.co_code + repr(code.co_names).encode())
        return f"{self.name} ({where}, line {code.co_firstlineno}, code {digest:08x})"

    def __repr__(self) -> str:
        return self.name


SUM = Op("SUM", lambda xp, a, b, out: xp.add(a, b, out=out))
PROD = Op("PROD", lambda xp, a, b, out: xp.multiply(a, b, out=out))
MIN = Op("MIN", lambda xp, a, b, out: xp.minimum(a, b, out=out))
MAX = Op("MAX", lambda xp, a, b, out: xp.maximum(a, b, out=out))

OPS = {op.name: op for op in (SUM, PROD, MIN, MAX)}
"""The operations that ship, by name."""
