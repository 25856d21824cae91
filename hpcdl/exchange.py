"""Carry out a movement of rows, and its transpose in the backward pass."""

from __future__ import annotations

from itertools import accumulate
from math import prod

from mpi4py import MPI

from collectives.adjoint import adjoint
from collectives.bind import bind
from collectives.blocks import Split
from collectives.traffic import Traffic
from hpcdl.array import Array, namespace
from hpcdl.halo import Movement
from hpcdl.plancache import PlanCache

SHAPES = 8
"""How many shapes of arrays keep their plans: batches of training and evaluation, and last ones."""


class Exchange:
    """A movement of rows between the ranks of a communicator, as a differentiable function.

    Rows are the second dimension of arrays (N, rows, ...). Results are new arrays, so that several
    microbatches may be in flight. The plans are bound to packed copies of what travels; they are
    kept, so that only the first array of a shape pays for them. All ranks call with the same N,
    the same further dimensions and the same dtype, in the same order.

    Args:
        movement: this rank's part of the movement.
        comm: the ranks that it is for.
        traffic: counters to add to.
    """

    def __init__(
        self, movement: Movement, comm: MPI.Intracomm, *, traffic: Traffic | None = None
    ) -> None:
        self._movement, self._comm, self._traffic = movement, comm, traffic
        self._bound: PlanCache[_Bound] = PlanCache(SHAPES)

    def forward(self, x: Array) -> Array:
        """Bring each rank the rows that it needs.

        Args:
            x: (N, owned rows, ...); it is left as it is.

        Returns:
            (N, needed rows, ...); `x` itself where no rank needs another's rows.

        Raises:
            ValueError: `x` has another number of rows.
        """
        m = self._movement
        self._check("x", x, m.owned)
        if not m.moves:
            return x[:, slice(*m.keep[0])]
        bound = self._bind(x)
        y = namespace(x).empty((x.shape[0], m.needed, *x.shape[2:]), x.dtype)
        for block, rows in m.inputs:
            bound.packed[block][...] = x[:, slice(*rows)]
        bound.forward.run()
        y[:, slice(*m.keep[1])] = x[:, slice(*m.keep[0])]
        for block, rows in m.outputs:
            y[:, slice(*rows)] = bound.packed[block]
        return y

    def backward(self, dy: Array) -> Array:
        """Bring each derivative back to the rank that owns its row, and add them up there.

        Args:
            dy: (N, needed rows, ...); it is left as it is.

        Returns:
            (N, owned rows, ...).

        Raises:
            ValueError: `dy` has another number of rows.
        """
        m = self._movement
        self._check("dy", dy, m.needed)
        if not m.moves and m.owned == m.needed:
            return dy
        dx = namespace(dy).zeros((dy.shape[0], m.owned, *dy.shape[2:]), dy.dtype)
        dx[:, slice(*m.keep[0])] = dy[:, slice(*m.keep[1])]
        if not m.moves:
            return dx
        bound = self._bind(dy)
        bound.memory[...] = 0  # the transpose adds to the blocks that the schedule only reads
        for block, rows in m.outputs:
            bound.packed[block][...] = dy[:, slice(*rows)]
        bound.backward.run()
        for block, rows in m.inputs:
            dx[:, slice(*rows)] += bound.packed[block]
        return dx

    def close(self) -> None:
        """Free all plans. They are made anew if need be."""
        self._bound.close()

    def _check(self, name: str, x: Array, rows: int) -> None:
        if x.ndim < 2 or x.shape[1] != rows:
            raise ValueError(
                f"{name}: needs shape (samples, {rows} rows, ...), got {tuple(x.shape)} "
                f"(rank {self._comm.Get_rank()} of {self._comm.Get_size()})"
            )

    def _bind(self, x: Array) -> _Bound:
        key = (x.shape[0], *x.shape[2:], x.dtype.str, type(x))
        return self._bound.get(key, lambda: _Bound(self._movement, x, self._comm, self._traffic))


class _Bound:
    """The packed blocks of a movement for one shape, and the two plans on them."""

    def __init__(
        self, movement: Movement, x: Array, comm: MPI.Intracomm, traffic: Traffic | None
    ) -> None:
        shapes = [(x.shape[0], rows, *x.shape[2:]) for rows in movement.blocks]
        row = prod((x.shape[0], *x.shape[2:]))
        bounds = list(accumulate((rows * row for rows in movement.blocks), initial=0))
        self.memory = namespace(x).empty(bounds[-1], x.dtype)
        blocks = Split(self.memory, len(shapes), bounds)
        self.packed = [blocks.views(b)[0].reshape(shape) for b, shape in enumerate(shapes)]
        self.forward = bind(movement.rounds, blocks, comm, traffic=traffic)
        self.backward = bind(adjoint(movement.rounds), blocks, comm, traffic=traffic)

    def close(self) -> None:
        self.forward.close()
        self.backward.close()
