"""The ways in which encoded vectors are summed over the ranks.

Each is bound to one vector: all plans and buffers are made once. All sum in the order of ranks, or
let one rank sum for all, so the result is bitwise the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from mpi4py import MPI

from collectives import Plan, Traffic, plan_allgather, plan_allreduce, plan_alltoall
from collectives.blocks import share
from hpcdl.array import Array, namespace
from hpcdl.compression.codec import Codec, State
from hpcdl.compression.cost import slot_bytes
from hpcdl.compression.error_feedback import RESIDUAL
from hpcdl.compression.states import PartStates


class Route(Protocol):
    """One way to sum a vector over the ranks."""

    @property
    def plans(self) -> Sequence[Plan]:
        """What it communicates with."""

    @property
    def arrays(self) -> State:
        """Its state, to be saved in checkpoints; updated in place."""

    def reduce(self, rng: np.random.Generator) -> None:
        """Replace the vector by the sum of all ranks' vectors."""


class Dense:
    """No compression: an allreduce of the vector itself.

    It has the state of the codec that it stands in for, so that a run can go on with more or fewer
    ranks. A residual that was restored is sent with the first vector.
    """

    def __init__(
        self,
        codec: Codec | None,
        vector: Array,
        comm: MPI.Comm,
        algorithm: str,
        traffic: Traffic | None,
    ) -> None:
        self._vector = vector
        self.arrays: State = {}
        if codec is not None:
            xp, n = namespace(vector), int(vector.size)
            self.arrays = PartStates(codec, [n], vector.dtype, xp).arrays
        self.plans = [plan_allreduce(vector, comm=comm, algorithm=algorithm, traffic=traffic)]

    def reduce(self, rng: np.random.Generator) -> None:
        """See `Route.reduce`."""
        if RESIDUAL in self.arrays:
            self._vector += self.arrays[RESIDUAL]
            self.arrays[RESIDUAL][...] = 0
        self.plans[0].run()


class Summed:
    """For summable codecs: an allreduce of the payload."""

    def __init__(
        self, codec: Codec, vector: Array, comm: MPI.Comm, algorithm: str, traffic: Traffic | None
    ) -> None:
        xp, n = namespace(vector), int(vector.size)
        self._codec, self._vector = codec, vector
        self._states = PartStates(codec, [n], vector.dtype, xp)
        self.arrays = self._states.arrays
        payload = xp.zeros(codec.payload_bytes(n, vector.dtype), xp.uint8)
        self._payload = payload
        self.plans = [
            plan_allreduce(
                payload.view(codec.payload_dtype), comm=comm, algorithm=algorithm, traffic=traffic
            )
        ]

    def reduce(self, rng: np.random.Generator) -> None:
        """See `Route.reduce`."""
        self._payload[...], self._states[0] = self._codec.encode(self._vector, self._states[0], rng)
        self.plans[0].run()
        self._vector[...] = 0
        self._codec.decode(self._payload, self._vector)


class Gather:
    """An allgather of the payloads; every rank decodes them all, in the order of ranks.

    Holds the payloads of all ranks at once.
    """

    def __init__(
        self, codec: Codec, vector: Array, comm: MPI.Comm, traffic: Traffic | None
    ) -> None:
        xp, n, size = namespace(vector), int(vector.size), comm.Get_size()
        self._codec, self._vector, self._rank = codec, vector, comm.Get_rank()
        self._states = PartStates(codec, [n], vector.dtype, xp)
        self.arrays = self._states.arrays
        slot = slot_bytes(codec, n, vector.dtype)
        slots = xp.zeros((size, slot), xp.uint8)
        self._payloads = slots[:, : codec.payload_bytes(n, vector.dtype)]
        self.plans = [plan_allgather(slots, comm=comm, traffic=traffic)]

    def reduce(self, rng: np.random.Generator) -> None:
        """See `Route.reduce`."""
        self._payloads[self._rank], self._states[0] = self._codec.encode(
            self._vector, self._states[0], rng
        )
        self.plans[0].run()
        self._vector[...] = 0
        for payload in self._payloads:
            self._codec.decode(payload, self._vector)


class Reencode:
    """A reduce-scatter and an allgather, both of payloads (as in 1-bit SGD, Seide et al. 2014).

    The vector is cut into one part for each rank. Each part is encoded and sent to its rank, which
    decodes and sums what comes, adds its own share as it is, encodes the sum, and sends it to all.
    The owner of a part, too, takes the decoded sum.

    A rank never encodes its own share of its own part. So the state of that part is free for the
    sums, and the residuals of all ranks add up to what is still unsent, element by element.
    """

    def __init__(
        self, codec: Codec, vector: Array, comm: MPI.Comm, traffic: Traffic | None
    ) -> None:
        xp, size = namespace(vector), comm.Get_size()
        n, dtype = int(vector.size), vector.dtype
        self._codec, self._rank, self._size = codec, comm.Get_rank(), size
        bounds = [share(n, part, size) for part in range(size)]
        lengths = [stop - start for start, stop in bounds]
        self._parts = [vector[start:stop] for start, stop in bounds]
        self._states = PartStates(codec, lengths, dtype, xp)
        self.arrays = self._states.arrays
        # Lengths differ by one at most, slots do not: MPI's counts are then the same everywhere.
        slot = slot_bytes(codec, -(-n // size), dtype)
        outbox, inbox = xp.zeros((size, slot), xp.uint8), xp.zeros((size, slot), xp.uint8)
        sizes = [codec.payload_bytes(length, dtype) for length in lengths]
        self._out = [outbox[part, :nbytes] for part, nbytes in enumerate(sizes)]
        self._in = inbox[:, : sizes[self._rank]]
        self.plans = [
            plan_alltoall(outbox, inbox, comm=comm, traffic=traffic),
            plan_allgather(outbox, comm=comm, traffic=traffic),
        ]

    def reduce(self, rng: np.random.Generator) -> None:
        """See `Route.reduce`."""
        mine = self._parts[self._rank]
        others = [part for part in range(self._size) if part != self._rank]
        for part in others:
            self._encode(part, rng)
        self.plans[0].run()
        for part in others:
            self._codec.decode(self._in[part], mine)
        self._encode(self._rank, rng)
        self.plans[1].run()
        for values, payload in zip(self._parts, self._out, strict=True):
            values[...] = 0
            self._codec.decode(payload, values)

    def _encode(self, part: int, rng: np.random.Generator) -> None:
        self._out[part][...], self._states[part] = self._codec.encode(
            self._parts[part], self._states[part], rng
        )
