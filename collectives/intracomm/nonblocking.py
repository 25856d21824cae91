"""The non-blocking collectives of a drop-in communicator; arguments as in mpi4py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpi4py import MPI

from collectives.intracomm import move, reduce
from collectives.intracomm.blocking import (
    Spec,
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    gather,
    gatherv,
    scatter,
    scatterv,
)
from collectives.intracomm.engine import Engine, Reader


class NonBlockingCollectives(MPI.Intracomm):
    """The non-blocking collectives. Where MPI does not allow threads they are the library's."""

    _engine: Engine | None = None

    def Ibarrier(self) -> MPI.Request:
        """Begin to wait until all ranks have come."""
        return self._start("barrier", move.barrier, super().Ibarrier)

    def Ibcast(self, buf: Spec, root: int = 0) -> MPI.Request:
        """Begin to copy the data of ``root`` to all ranks."""
        return self._start("bcast", move.bcast, super().Ibcast, buf, root)

    def Igather(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> MPI.Request:
        """Begin to gather data of one length from each rank at ``root``."""
        return self._start("gather", gather, super().Igather, sendbuf, recvbuf, root)

    def Igatherv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> MPI.Request:
        """Begin to gather the data of all ranks at ``root``."""
        return self._start("gather", gatherv, super().Igatherv, sendbuf, recvbuf, root)

    def Iscatter(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> MPI.Request:
        """Begin to deal out data of one length to each rank from ``root``."""
        return self._start("scatter", scatter, super().Iscatter, sendbuf, recvbuf, root)

    def Iscatterv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> MPI.Request:
        """Begin to deal out data to all ranks from ``root``."""
        return self._start("scatter", scatterv, super().Iscatterv, sendbuf, recvbuf, root)

    def Iallgather(self, sendbuf: Spec, recvbuf: Spec) -> MPI.Request:
        """Begin to gather data of one length from each rank on every rank."""
        return self._start("allgather", allgather, super().Iallgather, sendbuf, recvbuf)

    def Iallgatherv(self, sendbuf: Spec, recvbuf: Spec) -> MPI.Request:
        """Begin to gather the data of all ranks on every rank."""
        return self._start("allgather", allgatherv, super().Iallgatherv, sendbuf, recvbuf)

    def Ialltoall(self, sendbuf: Spec, recvbuf: Spec) -> MPI.Request:
        """Begin to send data of one length to each rank from each rank."""
        return self._start("alltoall", alltoall, super().Ialltoall, sendbuf, recvbuf)

    def Ialltoallv(self, sendbuf: Spec, recvbuf: Spec) -> MPI.Request:
        """Begin to send data to each rank from each rank."""
        return self._start("alltoall", alltoallv, super().Ialltoallv, sendbuf, recvbuf)

    def Ireduce(
        self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM, root: int = 0
    ) -> MPI.Request:
        """Begin to reduce the data of all ranks at ``root``."""
        return self._start("reduce", reduce.reduce, super().Ireduce, sendbuf, recvbuf, op, root)

    def Iallreduce(self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM) -> MPI.Request:
        """Begin to reduce the data of all ranks on every rank."""
        return self._start("allreduce", reduce.allreduce, super().Iallreduce, sendbuf, recvbuf, op)

    def Ireduce_scatter_block(
        self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM
    ) -> MPI.Request:
        """Begin to reduce the data of all ranks; each rank gets a part of one length."""
        name, read = "reduce_scatter", reduce.reduce_scatter_block
        return self._start(name, read, super().Ireduce_scatter_block, sendbuf, recvbuf, op)

    def Ireduce_scatter(
        self,
        sendbuf: Spec,
        recvbuf: Spec,
        recvcounts: Sequence[int] | None = None,
        op: MPI.Op = MPI.SUM,
    ) -> MPI.Request:
        """Begin to reduce the data of all ranks; each rank gets its part."""
        name, read = "reduce_scatter", reduce.reduce_scatter
        return self._start(name, read, super().Ireduce_scatter, sendbuf, recvbuf, recvcounts, op)

    def _start(
        self, name: str, read: Reader, library: Callable[..., MPI.Request], *args: Any
    ) -> MPI.Request:
        if self._engine is None:
            return library(*args)
        return self._engine.start(name, read, library, *args)
