"""The ranks that share each sample, and what they communicate through."""

from __future__ import annotations

from mpi4py import MPI

from collectives.algorithms.ring import allgather
from collectives.traffic import Traffic
from hpcdl.exchange import Exchange
from hpcdl.halo import Movement, gather, halo
from hpcdl.layout import Layout, Span
from hpcdl.parallel.sumover import SumOver


class Ranks:
    """The ranks that share each sample, top to bottom.

    Args:
        comm: these ranks.
        traffic: counters to add to.

    Attributes:
        rank: the number of this one.
        total: sums over these ranks.
    """

    def __init__(self, comm: MPI.Intracomm, traffic: Traffic | None = None) -> None:
        self.rank, self.size = comm.Get_rank(), comm.Get_size()
        self.total = SumOver(comm, traffic=traffic)
        self._comm, self._traffic = comm, traffic
        self._exchanges: list[Exchange] = []

    def spans(self, rows: int) -> list[Span]:
        """Which rows each rank holds, of so many in all."""
        return Layout((rows,), (self.size,)).spans(0)

    def halo(self, rows: int, needed: list[Span]) -> Exchange:
        """Open the exchange that brings each rank the rows that it needs, of so many in all."""
        return self._open(halo(self.rank, self.spans(rows), needed))

    def gather(self, rows: int) -> Exchange:
        """Open the exchange that brings each rank all rows, of so many in all."""
        return self._open(gather(self.rank, self.spans(rows), allgather))

    def close(self) -> None:
        """Free all plans."""
        self.total.close()
        for exchange in self._exchanges:
            exchange.close()

    def _open(self, movement: Movement) -> Exchange:
        self._exchanges.append(Exchange(movement, self._comm, traffic=self._traffic))
        return self._exchanges[-1]
