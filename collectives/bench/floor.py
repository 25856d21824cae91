"""The memory-bandwidth floor of an allreduce in shared memory, measured on the machine.

With P ranks on a node that can read and write each other's memory, each rank reduces one P-th of
the vector: it reads that part of all P vectors and writes the result to all of them. No algorithm
that leaves the result in all P places moves less. `Floor` moves just that, all ranks at the same
time and each in its own part, with nobody waiting for anybody: what it takes is the time of the
memory alone. Blocks are so short that what is read twice is read from a core's cache.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from collectives.bench.form import Call

Vectors: TypeAlias = tuple[npt.NDArray[np.float32], ...]

_BLOCK = 1 << 16  # bytes


class Floor:
    """One vector of float32 for each rank of a node, in a window of its own. Collective.

    Args:
        comm: ranks that are all on one node.
        nbytes: length of the vector of a rank.

    Attributes:
        kernel: what moves the data: "numba" where that is installed, or "numpy".
        move: a function without arguments that moves the data of this rank once.
    """

    def __init__(self, comm: MPI.Comm, nbytes: int) -> None:
        size, rank = comm.Get_size(), comm.Get_rank()
        n = nbytes // 4
        self._window = MPI.Win.Allocate_shared(4 * n, 4, comm=comm)  # type: ignore[arg-type]
        vectors = [
            np.asarray(self._window.Shared_query(r)[0])[: 4 * n].view(np.float32)
            for r in range(size)
        ]
        self._own = vectors[rank]
        self.reset()
        comm.Barrier()
        parts = tuple(v[rank * n // size : (rank + 1) * n // size] for v in vectors)
        self.kernel = "numpy" if importlib.util.find_spec("numba") is None else "numba"
        kernel = _by_numpy if self.kernel == "numpy" else _by_numba()
        self.move: Call = lambda: kernel(parts)
        self.move()  # compiles
        comm.Barrier()

    def reset(self) -> None:
        """Fill the vector of this rank, which leaves it as warm as another variant's data are."""
        self._own.fill(0)

    def close(self) -> None:
        """Free the memory. Collective."""
        del self.move, self._own
        self._window.Free()


def _by_numpy(parts: Vectors) -> None:
    first, *others = parts
    step = _BLOCK // first.itemsize
    for start in range(0, first.size, step):
        total = first[start : start + step]
        for other in others:
            np.add(total, other[start : start + step], out=total)
        for other in others:
            other[start : start + step] = total


def _by_numba() -> Callable[[Vectors], None]:
    from numba import njit

    @njit(nogil=True)  # type: ignore[untyped-decorator]
    def kernel(parts: Any) -> None:
        first = parts[0]
        if len(parts) == 2:
            other = parts[1]
            for i in range(first.size):
                total = first[i] + other[i]
                first[i] = total
                other[i] = total
            return
        for start in range(0, first.size, _BLOCK // 4):
            stop = min(first.size, start + _BLOCK // 4)
            for q in range(1, len(parts)):
                vector = parts[q]
                for i in range(start, stop):
                    first[i] += vector[i]
            for q in range(1, len(parts)):
                vector = parts[q]
                for i in range(start, stop):
                    vector[i] = first[i]

    found: Callable[[Vectors], None] = kernel
    return found
