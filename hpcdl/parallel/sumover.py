"""Sums over ranks, in the form in which layers take them."""

from __future__ import annotations

from dataclasses import dataclass

from mpi4py import MPI

from collectives.plan import Plan
from collectives.plans import plan_allreduce
from collectives.traffic import Traffic
from hpcdl.array import Array, namespace
from hpcdl.nn.layer import Reduce
from hpcdl.plancache import PlanCache

LENGTHS = 64
"""How many lengths of arrays keep their plans: a network has a few numbers of channels."""


class SumOver:
    """Sums an array over the ranks of a communicator, in place: a `hpcdl.nn.Reduce`.

    All ranks call with the same length and dtype, in the same order, and get bitwise the same sums.

    Args:
        comm: the ranks to sum over.
        algorithm: of the allreduce.
        traffic: counters to add to.
    """

    def __init__(
        self, comm: MPI.Intracomm, *, algorithm: str = "auto", traffic: Traffic | None = None
    ) -> None:
        self._comm, self._algorithm, self._traffic = comm, algorithm, traffic
        self._bound: PlanCache[_Bound] = PlanCache(LENGTHS)

    def __call__(self, array: Array) -> None:
        """Replace a 1-D array by its sum over the ranks."""
        if self._comm.Get_size() == 1:
            return
        key = (array.size, array.dtype.str, type(array))
        bound = self._bound.get(key, lambda: self._bind(array))
        bound.memory[...] = array
        bound.plan.run()
        array[...] = bound.memory

    def close(self) -> None:
        """Free all plans. They are made anew if need be."""
        self._bound.close()

    def _bind(self, array: Array) -> _Bound:
        memory = namespace(array).empty(array.size, array.dtype)
        return _Bound(
            memory,
            plan_allreduce(
                memory, comm=self._comm, algorithm=self._algorithm, traffic=self._traffic
            ),
        )


@dataclass(frozen=True)
class Chain:
    """One sum after another: over the ranks of a row of a grid, then over those of a column."""

    first: Reduce
    second: Reduce

    def __call__(self, array: Array) -> None:
        """Replace a 1-D array by its sum over both."""
        self.first(array)
        self.second(array)


@dataclass(frozen=True)
class _Bound:
    memory: Array
    plan: Plan

    def close(self) -> None:
        self.plan.close()
