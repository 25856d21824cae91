"""Anonymous memory that several processes of one node map.

It is a memfd of Linux, which the other processes open through /proc: it has no name that could be
left behind, no file system that could be too small, and its pages are reserved at the start, so
that a node without memory is an error here and not a signal later. (An MPI window would do too; but
Open MPI's print messages of components that are not used, and MPICH's may be larger than /dev/shm.)
"""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt
from mpi4py import MPI


class SharedMemoryError(OSError):
    """The ranks cannot share memory; the message says why."""

    plain = True


class SharedMemory:
    """Memory of which each rank of a communicator has a part, and all see all parts.

    Making it is collective. All bytes are zero at first.

    Args:
        comm: ranks of one node.
        nbytes: of this rank's part; it may differ between ranks.

    Attributes:
        nbytes: of this rank's part.
        addresses: int64 (ranks,): where each rank's part lies in this process.
        dead: nobody uses this rank's part any more.

    Raises:
        SharedMemoryError: it cannot be had; on all ranks.
    """

    def __init__(self, comm: MPI.Intracomm, nbytes: int) -> None:
        page = mmap.PAGESIZE
        parts = [-(-n // page) * page for n in comm.allgather(nbytes)]
        starts = np.concatenate([[0], np.cumsum(parts)])
        self.nbytes = nbytes
        self.dead = False
        self._start = int(starts[comm.Get_rank()])
        self._map = _mapped(comm, int(starts[-1]))
        first = np.frombuffer(self._map, np.uint8, 1).ctypes.data
        self.addresses = np.array([first + s for s in starts[:-1].tolist()], np.int64)

    def array(self) -> npt.NDArray[np.uint8]:
        """Return this rank's part, uint8 (nbytes,)."""
        return np.frombuffer(self._map, np.uint8, self.nbytes, self._start)

    def die(self) -> None:
        """Tell that nobody uses this rank's part any more."""
        self.dead = True

    def free(self) -> None:
        """Give the memory back, unless something in this process still refers to it."""
        try:
            self._map.close()
        except BufferError:
            return


def _mapped(comm: MPI.Intracomm, nbytes: int) -> mmap.mmap:
    error, found, fd = "", None, -1
    if comm.Get_rank() == 0:
        try:
            if nbytes > os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE:
                raise OSError("more than this node has")  # Linux would end processes first
            fd = os.memfd_create("collectives")
            os.posix_fallocate(fd, 0, max(nbytes, 1))
        except (OSError, AttributeError) as problem:
            error = f"{nbytes} bytes: {problem}"
    where, error = comm.bcast((f"/proc/{os.getpid()}/fd/{fd}", error))
    try:
        if not error:
            own = os.open(where, os.O_RDWR) if fd < 0 else fd
            try:
                found = mmap.mmap(own, max(nbytes, 1))
            finally:
                if fd < 0:
                    os.close(own)
    except OSError as problem:
        error = f"rank {comm.Get_rank()} of the node: {problem}"
    errors = [e for e in comm.allgather(error) if e]  # also: nobody needs rank 0's any more
    if fd >= 0:
        os.close(fd)
    if errors or found is None:
        raise SharedMemoryError(f"memory that the ranks of a node share: {errors[0]}")
    return found
