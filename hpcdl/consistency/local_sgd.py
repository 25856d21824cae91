"""Local SGD: every rank trains by itself, and now and then the parameters are averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

from collectives import Plan, Traffic, plan_allreduce
from hpcdl.array import Array
from hpcdl.consistency.consistency import check_bound, check_vectors


@dataclass
class LocalSGDState:
    """What `LocalSGD.init` made.

    Attributes:
        params: the vector that is averaged.
        grads: the vector of gradients.
        size: ranks that train together.
        average: sums ``params`` over the ranks.
        together: whether the parameters are the same on all ranks now.
    """

    params: Array
    grads: Array
    size: int
    average: Plan
    together: bool = True


@dataclass(frozen=True)
class LocalSGD:
    """Average the parameters over the ranks every ``period`` steps (Stich 2019; Lin et al. 2020).

    In between each rank updates its own parameters with P times its own share of the global mean
    gradient. The mean of that over the P ranks is the global mean gradient, also where ranks have
    different numbers of samples, or none. The update of SGD with momentum and weight decay is
    linear in parameters, velocity and gradient. So with ``period=1`` the averaged parameters are
    those of synchronous training, up to rounding, though the velocities stay local: their mean is
    the velocity of synchronous training. Of a non-linear optimizer this is not true.

    Attributes:
        period: steps H between two averages, at least 1; traffic divides by it.
        algorithm: of the allreduce, as ``python -m collectives list`` shows them, or "auto".

    Raises:
        ValueError: ``period`` is below 1.
    """

    period: int = 1
    algorithm: str = "auto"

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"period={self.period}: LocalSGD needs at least 1 step")

    def init(
        self, params: Array, grads: Array, comm: MPI.Comm, *, traffic: Traffic | None = None
    ) -> LocalSGDState:
        """See `Consistency.init`."""
        check_vectors(params, grads)
        average = plan_allreduce(params, comm=comm, algorithm=self.algorithm, traffic=traffic)
        return LocalSGDState(params, grads, comm.Get_size(), average)

    def reduce(self, grads: Array, state: LocalSGDState, step: int) -> None:
        """Scale this rank's share to the size of the whole, without communication."""
        check_bound("grads", grads, state.grads)
        grads *= state.size

    def mix(self, params: Array, state: LocalSGDState, step: int) -> None:
        """Average the parameters after steps H - 1, 2 H - 1, ..., counted from 0."""
        check_bound("params", params, state.params)
        state.together = False
        if (step + 1) % self.period == 0:
            self.flush(params, state)

    def flush(self, params: Array, state: LocalSGDState) -> None:
        """Average the parameters, unless they are averaged already."""
        check_bound("params", params, state.params)
        if not state.together:
            state.average.run()
            params /= state.size
            state.together = True

    def arrays(self, state: LocalSGDState) -> dict[str, Array]:
        """Return nothing: all that a rank has for itself is its parameters and its optimizer."""
        return {}

    def restore(self, state: LocalSGDState, arrays: Mapping[str, Any]) -> None:
        """Take it that the ranks' parameters differ; see `Consistency.restore`.

        Raises:
            ValueError: there are arrays; this consistency saves none.
        """
        if arrays:
            raise ValueError(f"arrays: are {', '.join(arrays)}; LocalSGD saves none")
        state.together = False

    def close(self, state: LocalSGDState) -> None:
        """See `Consistency.close`."""
        state.average.close()
