"""The persistent collectives of a drop-in communicator; arguments as in mpi4py."""

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


class PersistentCollectives(MPI.Intracomm):
    """The persistent collectives. Where MPI does not allow threads they are the library's."""

    _engine: Engine | None = None

    def Barrier_init(self, info: MPI.Info = MPI.INFO_NULL) -> MPI.Prequest:
        """Prepare to wait until all ranks have come."""
        return self._persist("barrier", move.barrier, super().Barrier_init, info)

    def Bcast_init(self, buf: Spec, root: int = 0, info: MPI.Info = MPI.INFO_NULL) -> MPI.Prequest:
        """Prepare to copy the data of ``root`` to all ranks."""
        return self._persist("bcast", move.bcast, super().Bcast_init, info, buf, root)

    def Gather_init(
        self, sendbuf: Spec, recvbuf: Spec, root: int = 0, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to gather data of one length from each rank at ``root``."""
        return self._persist("gather", gather, super().Gather_init, info, sendbuf, recvbuf, root)

    def Gatherv_init(
        self, sendbuf: Spec, recvbuf: Spec, root: int = 0, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to gather the data of all ranks at ``root``."""
        return self._persist("gather", gatherv, super().Gatherv_init, info, sendbuf, recvbuf, root)

    def Scatter_init(
        self, sendbuf: Spec, recvbuf: Spec, root: int = 0, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to deal out data of one length to each rank from ``root``."""
        return self._persist("scatter", scatter, super().Scatter_init, info, sendbuf, recvbuf, root)

    def Scatterv_init(
        self, sendbuf: Spec, recvbuf: Spec, root: int = 0, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to deal out data to all ranks from ``root``."""
        return self._persist(
            "scatter", scatterv, super().Scatterv_init, info, sendbuf, recvbuf, root
        )

    def Allgather_init(
        self, sendbuf: Spec, recvbuf: Spec, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to gather data of one length from each rank on every rank."""
        return self._persist("allgather", allgather, super().Allgather_init, info, sendbuf, recvbuf)

    def Allgatherv_init(
        self, sendbuf: Spec, recvbuf: Spec, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to gather the data of all ranks on every rank."""
        return self._persist(
            "allgather", allgatherv, super().Allgatherv_init, info, sendbuf, recvbuf
        )

    def Alltoall_init(
        self, sendbuf: Spec, recvbuf: Spec, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to send data of one length to each rank from each rank."""
        return self._persist("alltoall", alltoall, super().Alltoall_init, info, sendbuf, recvbuf)

    def Alltoallv_init(
        self, sendbuf: Spec, recvbuf: Spec, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to send data to each rank from each rank."""
        return self._persist("alltoall", alltoallv, super().Alltoallv_init, info, sendbuf, recvbuf)

    def Reduce_init(
        self,
        sendbuf: Spec,
        recvbuf: Spec,
        op: MPI.Op = MPI.SUM,
        root: int = 0,
        info: MPI.Info = MPI.INFO_NULL,
    ) -> MPI.Prequest:
        """Prepare to reduce the data of all ranks at ``root``."""
        return self._persist(
            "reduce", reduce.reduce, super().Reduce_init, info, sendbuf, recvbuf, op, root
        )

    def Allreduce_init(
        self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to reduce the data of all ranks on every rank."""
        return self._persist(
            "allreduce", reduce.allreduce, super().Allreduce_init, info, sendbuf, recvbuf, op
        )

    def Reduce_scatter_block_init(
        self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM, info: MPI.Info = MPI.INFO_NULL
    ) -> MPI.Prequest:
        """Prepare to reduce the data of all ranks; each rank gets a part of one length."""
        name, read = "reduce_scatter", reduce.reduce_scatter_block
        return self._persist(
            name, read, super().Reduce_scatter_block_init, info, sendbuf, recvbuf, op
        )

    def Reduce_scatter_init(
        self,
        sendbuf: Spec,
        recvbuf: Spec,
        recvcounts: Sequence[int] | None = None,
        op: MPI.Op = MPI.SUM,
        info: MPI.Info = MPI.INFO_NULL,
    ) -> MPI.Prequest:
        """Prepare to reduce the data of all ranks; each rank gets its part."""
        name, read = "reduce_scatter", reduce.reduce_scatter
        return self._persist(
            name, read, super().Reduce_scatter_init, info, sendbuf, recvbuf, recvcounts, op
        )

    def _persist(
        self,
        name: str,
        read: Reader,
        library: Callable[..., MPI.Prequest],
        info: MPI.Info,
        *args: Any,
    ) -> MPI.Prequest:
        if self._engine is None:
            return library(*args, info)
        return self._engine.persist(name, read, library, info, *args)
