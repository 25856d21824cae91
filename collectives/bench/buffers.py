"""The memory that a benchmark works on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.settings import Settings
from collectives.blocks import share

Array = npt.NDArray[Any]


class Buffers:
    """What goes in, what is worked on in place, and what comes out, at one length.

    All ways to do the collective use the same memory, and all of it is written to beforehand.

    Args:
        comm: the communicator.
        settings: collective, dtype and operation.
        nbytes: the length asked for; rounded up to whole elements, and for an alltoall to as many
            for each rank.

    Attributes:
        data: the input, never written to again.
        work: for what works in place.
        out: for what does not.
        part: the slice that is this rank's part.
        counts: the number of elements in the part of each rank.
    """

    def __init__(self, comm: MPI.Comm, settings: Settings, nbytes: int) -> None:
        size, rank = comm.Get_size(), comm.Get_rank()
        unit = size if settings.collective.name == "alltoall" else 1
        n = -(-nbytes // (np.dtype(settings.dtype).itemsize * unit)) * unit
        # Small whole numbers: their sums are exact in every order. Products are of ones and twos.
        top = 3 if settings.op.name == "PROD" else 17
        pattern = np.random.default_rng(rank).integers(1, top, 1021).astype(settings.dtype)
        self.data: Array = np.resize(pattern, n)
        self.work: Array = self.data.copy()
        self.out: Array = np.zeros_like(self.data)
        spans = [share(n, r, size) for r in range(size)]
        self.part = slice(*spans[rank])
        self.counts = [stop - start for start, stop in spans]
        self._root = rank == 0

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

    def clear(self) -> None:
        """Put zeros in ``out``."""
        self.out.fill(0)
