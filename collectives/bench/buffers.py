"""The memory that a benchmark works on."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

import collectives
from collectives.bench.settings import Settings
from collectives.blocks import share

Array = npt.NDArray[Any]


def element(name: str) -> np.dtype[Any]:
    """Return the dtype of a name of `collectives.bench.settings.DTYPES`.

    Raises:
        ValueError: it is bfloat16, and ml_dtypes is not installed.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ValueError(
            "--dtype bfloat16: needs the package ml_dtypes (pip install ml_dtypes)"
        ) from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


class Buffers:
    """What goes in, what is worked on in place, and what comes out, at one length.

    All ways to do the collective in one placement use the same memory, and all of it is written to
    beforehand.

    Args:
        comm: the communicator.
        settings: collective, dtype and operation.
        nbytes: the length asked for; rounded up to whole elements, and where each rank has a part
            of the same length, or of one in proportion to its number, to as many as that takes.
        placement: where it all lies.

    Attributes:
        data: the input, never written to again.
        counts: the number of elements in the part of each rank.
        part: the slice that is this rank's part.
        unit: the length of the shortest part, where lengths are in proportion.
    """

    def __init__(
        self, comm: MPI.Comm, settings: Settings, nbytes: int, placement: str = "private"
    ) -> None:
        size, rank = comm.Get_size(), comm.Get_rank()
        name, dtype = settings.collective.name, element(settings.dtype)
        least = 1
        if settings.uneven:
            least = size * (size + 1) // 2
        elif name in ("alltoall", "gather", "scatter"):
            least = size
        self.unit = -(-nbytes // (dtype.itemsize * least))
        n = self.unit * least
        # Small whole numbers: their sums are exact in every order. Products are of ones and twos.
        top = 3 if settings.op.name == "PROD" or dtype.itemsize == 2 else 17
        pattern = np.random.default_rng(rank).integers(1, top, 1021).astype(dtype)
        self._comm, self._placement = comm, placement
        self.data = self._allocate(n, dtype)
        self.data[...] = np.resize(pattern, n)
        if settings.uneven:
            self.counts = [self.unit * (r + 1) for r in range(size)]
        else:
            spans = [share(n, r, size) for r in range(size)]
            self.counts = [stop - start for start, stop in spans]
        starts = [0, *accumulate(self.counts)]
        self.part = slice(starts[rank], starts[rank + 1])
        self._root = rank == 0

    @cached_property
    def work(self) -> Array:
        """What is worked on in place. The first use is collective."""
        return self._allocate(self.data.size, self.data.dtype)

    @cached_property
    def out(self) -> Array:
        """What comes out where it is not in place. The first use is collective."""
        return self._allocate(self.data.size, self.data.dtype)

    def refill(self) -> None:
        """Put the input in ``work``."""
        np.copyto(self.work, self.data)

    def refill_root(self) -> None:
        """Put the input in ``work`` at rank 0, and zeros elsewhere."""
        if self._root:
            self.refill()
        else:
            self.work.fill(0)

    def refill_part(self) -> None:
        """Put the input in this rank's part of ``work``, and zeros in the rest."""
        self.work.fill(0)
        self.work[self.part] = self.data[self.part]

    def blank(self) -> None:
        """Put zeros in ``work``: they stay zeros, however often they are reduced."""
        self.work.fill(0)

    def clear(self) -> None:
        """Put zeros in ``out``."""
        self.out.fill(0)

    def _allocate(self, n: int, dtype: np.dtype[Any]) -> Array:
        if self._placement == "private":
            array: Array = np.empty(n, dtype)
        else:
            array = collectives.empty(self._comm, n, dtype)
        array.fill(0)
        return array
