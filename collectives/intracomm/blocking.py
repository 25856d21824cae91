"""The blocking collectives of a drop-in communicator; arguments as in mpi4py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mpi4py import MPI

from collectives.intracomm import move, reduce, rooted
from collectives.intracomm.engine import Engine, Reader

Spec = Any
"""A buffer argument (see `collectives.intracomm.message`)."""

allgatherv = partial(move.allgather, vector=True)
allgather = partial(move.allgather, vector=False)
alltoallv = partial(move.alltoall, vector=True)
alltoall = partial(move.alltoall, vector=False)
gatherv = partial(rooted.gather, vector=True)
gather = partial(rooted.gather, vector=False)
scatterv = partial(rooted.scatter, vector=True)
scatter = partial(rooted.scatter, vector=False)


class Blocking(MPI.Intracomm):
    """The blocking collectives. Without an engine, as of a copy of the object, the library's."""

    _engine: Engine | None = None

    def Barrier(self) -> None:
        """Wait until all ranks have come."""
        self._do("barrier", move.barrier, super().Barrier)

    def Bcast(self, buf: Spec, root: int = 0) -> None:
        """Copy the data of ``root`` to all ranks."""
        self._do("bcast", move.bcast, super().Bcast, buf, root)

    def Gather(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        """Gather data of one length from each rank at ``root``."""
        self._do("gather", gather, super().Gather, sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        """Gather the data of all ranks at ``root``."""
        self._do("gather", gatherv, super().Gatherv, sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        """Deal out data of one length to each rank from ``root``."""
        self._do("scatter", scatter, super().Scatter, sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: Spec, recvbuf: Spec, root: int = 0) -> None:
        """Deal out data to all ranks from ``root``."""
        self._do("scatter", scatterv, super().Scatterv, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Spec, recvbuf: Spec) -> None:
        """Gather data of one length from each rank on every rank."""
        self._do("allgather", allgather, super().Allgather, sendbuf, recvbuf)

    def Allgatherv(self, sendbuf: Spec, recvbuf: Spec) -> None:
        """Gather the data of all ranks on every rank."""
        self._do("allgather", allgatherv, super().Allgatherv, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Spec, recvbuf: Spec) -> None:
        """Send data of one length to each rank from each rank."""
        self._do("alltoall", alltoall, super().Alltoall, sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: Spec, recvbuf: Spec) -> None:
        """Send data to each rank from each rank."""
        self._do("alltoall", alltoallv, super().Alltoallv, sendbuf, recvbuf)

    def Reduce(self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM, root: int = 0) -> None:
        """Reduce the data of all ranks at ``root``."""
        self._do("reduce", reduce.reduce, super().Reduce, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM) -> None:
        """Reduce the data of all ranks on every rank."""
        if self._engine is None:
            super().Allreduce(sendbuf, recvbuf, op)
        else:
            self._engine.allreduce(super().Allreduce, sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf: Spec, recvbuf: Spec, op: MPI.Op = MPI.SUM) -> None:
        """Reduce the data of all ranks; each rank gets a part of one length."""
        name, read = "reduce_scatter", reduce.reduce_scatter_block
        self._do(name, read, super().Reduce_scatter_block, sendbuf, recvbuf, op)

    def Reduce_scatter(
        self,
        sendbuf: Spec,
        recvbuf: Spec,
        recvcounts: Sequence[int] | None = None,
        op: MPI.Op = MPI.SUM,
    ) -> None:
        """Reduce the data of all ranks; each rank gets its part."""
        name, read = "reduce_scatter", reduce.reduce_scatter
        self._do(name, read, super().Reduce_scatter, sendbuf, recvbuf, recvcounts, op)

    def _do(self, name: str, read: Reader, library: Callable[..., None], *args: Any) -> None:
        if self._engine is None:
            library(*args)
        else:
            self._engine.run(name, read, library, *args)
