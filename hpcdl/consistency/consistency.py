"""What a consistency is: how the ranks' copies of the parameters are kept together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from mpi4py import MPI

from collectives import Traffic
from hpcdl.array import Array

State: TypeAlias = Any
"""What a consistency has bound to the vectors; each has a class of its own."""


class Consistency(Protocol):
    """A rule for when ranks exchange what.

    The loop around it:

        state = consistency.init(params, grads, comm)
        for step in range(first, last):
            # grads: this rank's share of the gradient, so that the sum over ranks is the mean over
            # the global batch: sum of this rank's samples' gradients / samples of the global batch
            consistency.reduce(grads, state, step)
            opt_state = optimizer.update(params, grads, opt_state, step)
            consistency.mix(params, state, step)
        consistency.flush(params, state)
        consistency.close(state)

    All calls but `arrays` and `restore` are collective: every rank makes them, in the same order.
    """

    def init(
        self, params: Array, grads: Array, comm: MPI.Comm, *, traffic: Traffic | None = None
    ) -> State:
        """Bind to the flat vectors; all memory and plans are made here.

        Args:
            params: flat vector of parameters, the same values on all ranks.
            grads: flat vector of as many gradients.
            comm: the ranks that train together.
            traffic: counters to add to.

        Raises:
            TypeError: a vector is not an array of a floating dtype.
            ValueError: the vectors differ in length or dtype, or an option does not fit.
        """

    def reduce(self, grads: Array, state: State, step: int) -> None:
        """Turn this rank's share of the gradient into what its optimizer takes, in place.

        Raises:
            ValueError: ``grads`` is not the array that `init` was given.
        """

    def mix(self, params: Array, state: State, step: int) -> None:
        """Bring the updated parameters together, in place, where it is time to.

        Raises:
            ValueError: ``params`` is not the array that `init` was given.
        """

    def flush(self, params: Array, state: State) -> None:
        """Make the parameters the same on all ranks, before they are evaluated.

        Raises:
            ValueError: ``params`` is not the array that `init` was given.
        """

    def arrays(self, state: State) -> dict[str, Array]:
        """Return what a checkpoint must hold for each rank, beside parameters; live arrays.

        Names and shapes are the same on all ranks, and for any number of ranks. What counts is the
        sum over ranks: for another number of ranks it may be dealt out in any way.
        """

    def restore(self, state: State, arrays: Mapping[str, Any]) -> None:
        """Set the state to saved `arrays`; the parameters are then those saved with them.

        Raises:
            ValueError: the names or shapes differ from those of this state.
        """

    def close(self, state: State) -> None:
        """Free what `init` made; closing twice is harmless."""


def check_vectors(params: Array, grads: Array) -> None:
    """Check that the two flat vectors belong together.

    Raises:
        ValueError: they are not 1-D, or differ in length or dtype.
    """
    if params.ndim != 1 or (params.shape, params.dtype) != (grads.shape, grads.dtype):
        raise ValueError(
            f"params, grads: have shapes {tuple(params.shape)}, {tuple(grads.shape)} and dtypes "
            f"{params.dtype}, {grads.dtype}; need two 1-D arrays of one length and dtype"
        )


def check_bound(name: str, array: Array, bound: Array) -> None:
    """Check that an array is the one that plans were bound to.

    Raises:
        ValueError: it is another.
    """
    if array is not bound:
        raise ValueError(f"{name}: is not the array that init was given; its plans hold that one")
