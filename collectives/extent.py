"""How many bytes the blocks of a schedule have, where the buffers of the ranks are equally long."""

from __future__ import annotations

from typing import Any

from collectives.collective import BARRIER
from collectives.registry import Algorithm


class Extent:
    """How many bytes blocks have, when an algorithm runs on buffers of ``nbytes`` bytes.

    Args:
        algorithm: says how many blocks there are.
        size: number of ranks.
        nbytes: of the buffer of a rank: of the vector that is reduced or broadcast, of all parts
            together for reduce_scatter, allgather, gather and scatter, of all that a rank sends in
            an alltoall. A barrier has no data; each of its blocks is one byte, whatever this is.
        element_bytes: bytes of an element: blocks are then cut between elements, as in a real run.
            Default: all blocks are equally long.

    Attributes:
        nbytes: all of them.
        parts: the number of blocks that they are split into.

    Raises:
        ValueError: ``nbytes`` is negative or not a whole number of elements; or the parts of an
            alltoall are not, so that a rank would send another length than its peer takes.
    """

    def __init__(
        self, algorithm: Algorithm, size: int, nbytes: int, element_bytes: int | None = None
    ) -> None:
        if nbytes < 0:
            raise ValueError(f"nbytes={nbytes}: needs 0 or more")
        if element_bytes is not None and (element_bytes < 1 or nbytes % element_bytes):
            raise ValueError(f"element_bytes={element_bytes}: does not divide nbytes={nbytes}")
        # Where blocks are addressed by destination, one goes to each rank and one comes from each;
        # all others are scratch, and as long as these.
        self.parts = algorithm.blocks(size) if algorithm.collective.one_space else size
        if algorithm.collective.name == BARRIER.name:
            nbytes, element_bytes = self.parts, None
        if element_bytes is not None and not algorithm.collective.one_space:
            elements = nbytes // element_bytes
            if elements % size:
                raise ValueError(
                    f"nbytes={nbytes}: are {elements} elements of {element_bytes} bytes, which "
                    f"{size} ranks do not divide"
                )
        self.nbytes, self._element = nbytes, element_bytes

    def of(self, block: Any, count: Any) -> Any:
        """Return the bytes of ``count`` blocks from ``block`` on; ints, or arrays over ranks."""
        if self._element is None:
            return count * (self.nbytes / self.parts)
        elements = self.nbytes // self._element
        first = block % self.parts
        upto = (first + count) * elements // self.parts
        return (upto - first * elements // self.parts) * self._element
