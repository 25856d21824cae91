"""Sum gradient vectors over the ranks with fewer bytes than they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import Traffic
from collectives.arguments import check_buffer
from collectives.closing import Closing
from hpcdl.array import Array
from hpcdl.compression.codec import Codec, State, check_vector
from hpcdl.compression.cost import choose_route
from hpcdl.compression.routes import Dense, Gather, Reencode, Route, Summed
from hpcdl.compression.states import restore


class CompressedAllreduce(Closing):
    """A vector's sum over all ranks, in place, through a codec; bound once, run many times.

    The sum is that of the decoded payloads, and bitwise the same on all ranks. Making one is
    collective over ``comm``. Use it as a context manager, or call `close`.

    Args:
        codec: the codec, or None for a plain allreduce.
        vector: C-contiguous, 1-D, float32 or float64, of one length and dtype on all ranks.
        comm: the communicator.
        route: "auto", or one of `hpcdl.compression.cost.ROUTES` to force it.
        algorithm: of the allreduce of the routes "dense" and "sum".
        traffic: counters to add to.

    Attributes:
        route: the route taken.
        note: why the codec is not used, where a dense allreduce is the better; else empty.

    Raises:
        TypeError: ``vector`` is not an array, or of another dtype.
        ValueError: ``vector`` is not 1-D, contiguous and writable, there is no such route or
            algorithm, or the route does not fit the codec.
    """

    def __init__(
        self,
        codec: Codec | None,
        vector: Array,
        comm: MPI.Comm,
        *,
        route: str = "auto",
        algorithm: str = "auto",
        traffic: Traffic | None = None,
    ) -> None:
        check_buffer("vector", vector, comm, reduce=True)
        check_vector("vector", vector)
        choice = choose_route(codec, int(vector.size), vector.dtype, comm.Get_size(), route)
        self.route, self.note = choice.route, choice.note
        self._route: Route
        if codec is None or self.route == "dense":
            self._route = Dense(codec, vector, comm, algorithm, traffic)
        elif self.route == "sum":
            self._route = Summed(codec, vector, comm, algorithm, traffic)
        elif self.route == "gather":
            self._route = Gather(codec, vector, comm, traffic)
        else:
            self._route = Reencode(codec, vector, comm, traffic)

    @property
    def bytes_sent(self) -> int:
        """The bytes that this rank sends in one `reduce`."""
        return sum(plan.bytes_sent for plan in self._route.plans)

    @property
    def state(self) -> State:
        """This rank's arrays to save in a checkpoint, by name; live, so copy them.

        Names and shapes are the same on all ranks. A "residual", as error feedback has it, is as
        long as the vector on every route; the sum over ranks is what is still unsent. So a run can
        go on with another number of ranks if that sum is dealt out to them in any way.
        """
        return self._route.arrays

    def reduce(self, rng: np.random.Generator) -> None:
        """Replace the vector by the sum over all ranks.

        Args:
            rng: where the codec's random numbers come from: one for each step and rank, as
                ``numpy.random.default_rng([seed, step, rank])``.
        """
        self._route.reduce(rng)

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Set the state to one that was saved.

        Raises:
            ValueError: names or shapes differ: it is of another codec or vector.
        """
        restore(self._route.arrays, arrays)

    def close(self) -> None:
        """Free the plans; closing twice is harmless."""
        for plan in self._route.plans:
            plan.close()
