"""Synchronous training: every step uses the gradient of the whole global batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import Traffic
from hpcdl.array import Array
from hpcdl.compression.allreduce import CompressedAllreduce
from hpcdl.compression.codec import Codec
from hpcdl.consistency.consistency import check_bound, check_vectors

STREAM = 0x636F646563
"""Keeps a codec's random numbers apart from others that come from the same seed ("codec")."""


@dataclass(frozen=True)
class SynchronousState:
    """What `Synchronous.init` made.

    Attributes:
        grads: the vector that is summed.
        allreduce: what sums it; its ``route``, ``note`` and ``bytes_sent`` say how.
        rank: this rank.
    """

    grads: Array
    allreduce: CompressedAllreduce
    rank: int


@dataclass(frozen=True)
class Synchronous:
    """Sum the gradients of all ranks in every step (bulk synchronous parallel).

    The ranks' parameters stay bitwise the same, since each gets the same sum and does the same
    with it. Without a codec this equals training on one rank, up to the order of sums.

    Attributes:
        algorithm: of the allreduce, as ``python -m collectives list`` shows them, or "auto".
        codec: compresses the gradients on their way; None: they travel as they are.
        route: how encoded gradients travel; see `hpcdl.compression.cost.choose_route`.
        seed: of the codec's random numbers, which follow from it, the step and the rank.

    Raises:
        ValueError: ``seed`` is negative.
    """

    algorithm: str = "auto"
    codec: Codec | None = None
    route: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: needs 0 or more")

    def init(
        self, params: Array, grads: Array, comm: MPI.Comm, *, traffic: Traffic | None = None
    ) -> SynchronousState:
        """See `Consistency.init`."""
        check_vectors(params, grads)
        allreduce = CompressedAllreduce(
            self.codec,
            grads,
            comm,
            route=self.route,
            algorithm=self.algorithm,
            traffic=traffic,
        )
        return SynchronousState(grads, allreduce, comm.Get_rank())

    def reduce(self, grads: Array, state: SynchronousState, step: int) -> None:
        """Sum the gradients over all ranks; see `Consistency.reduce`."""
        check_bound("grads", grads, state.grads)
        state.allreduce.reduce(np.random.default_rng([STREAM, self.seed, step, state.rank]))

    def mix(self, params: Array, state: SynchronousState, step: int) -> None:
        """Do nothing: all ranks hold the same parameters."""

    def flush(self, params: Array, state: SynchronousState) -> None:
        """Do nothing: all ranks hold the same parameters."""

    def arrays(self, state: SynchronousState) -> dict[str, Array]:
        """Return the codec's state; see `Consistency.arrays`."""
        return state.allreduce.state

    def restore(self, state: SynchronousState, arrays: Mapping[str, Any]) -> None:
        """See `Consistency.restore`."""
        state.allreduce.restore(arrays)

    def close(self, state: SynchronousState) -> None:
        """See `Consistency.close`."""
        state.allreduce.close()
