"""Processes on a grid with named axes."""

from __future__ import annotations

from math import prod

from mpi4py import MPI

from collectives.closing import Closing


class ProcessGrid(Closing):
    """The ranks of a communicator on a grid: ``ProcessGrid(comm, data=4, height=2)``.

    Ranks are numbered along the last axis first, so that ranks which differ only there are
    neighbours, and mostly share a node. The grid frees what it makes: use it as a context manager,
    or call `close`. Making and closing one is collective over ``comm``.

    Args:
        comm: an intracommunicator; it is not changed.
        axes: the number of ranks along each axis. One may be 0: as many as there are left.

    Raises:
        ValueError: the grid does not have as many ranks as ``comm``.
        TypeError: an axis is not a whole number.
    """

    def __init__(self, comm: MPI.Intracomm, **axes: int) -> None:
        sizes = _fill(axes, comm.Get_size())
        self._names = tuple(axes)
        self._cart = comm.Create_cart(sizes)
        self._sizes = dict(zip(axes, sizes, strict=True))
        self._index = dict(zip(axes, self._cart.Get_coords(self._cart.Get_rank()), strict=True))
        self._made: dict[tuple[str, ...], MPI.Intracomm] = {self._names: self._cart}

    def comm(self, *axes: str) -> MPI.Intracomm:
        """The communicator of the ranks that differ from this one along these axes only.

        Collective over the whole grid when these axes are asked for first; later the same
        communicator is returned. Ranks are numbered as in the grid. It belongs to the grid.

        Args:
            axes: names; all of them, in any order, give the whole grid.

        Raises:
            ValueError: there is no such axis, or none is given.
        """
        if not axes:
            raise ValueError(f"axes: needs at least one of {', '.join(self._names)}")
        for axis in axes:
            self._check(axis)
        key = tuple(name for name in self._names if name in axes)
        if key not in self._made:
            self._made[key] = self._cart.Sub([name in axes for name in self._names])
        return self._made[key]

    def index(self, axis: str) -> int:
        """Where this rank is along an axis.

        Raises:
            ValueError: there is no such axis.
        """
        self._check(axis)
        return self._index[axis]

    def size(self, axis: str) -> int:
        """The number of ranks along an axis.

        Raises:
            ValueError: there is no such axis.
        """
        self._check(axis)
        return self._sizes[axis]

    def close(self) -> None:
        """Free the communicators that the grid has made. Closing twice is harmless."""
        while self._made:
            self._made.popitem()[1].Free()

    def __repr__(self) -> str:
        return f"ProcessGrid({', '.join(f'{name}={n}' for name, n in self._sizes.items())})"

    def _check(self, axis: str) -> None:
        if axis not in self._names:
            raise ValueError(f"axis {axis!r}: the grid has {', '.join(self._names)}")


def _fill(axes: dict[str, int], ranks: int) -> list[int]:
    """The number of ranks along each axis, with 0 replaced."""
    said = ", ".join(f"{name}={n}" for name, n in axes.items())
    for name, n in axes.items():
        if not isinstance(n, int):
            raise TypeError(f"{name}={n!r}: needs a whole number of ranks")
        if n < 0:
            raise ValueError(f"{name}={n}: needs 1 or more ranks, or 0 for as many as are left")
    if not axes or list(axes.values()).count(0) > 1:
        raise ValueError(f"axes ({said}): needs at least one axis, and at most one of 0")
    fixed = prod(n for n in axes.values() if n)
    if 0 in axes.values() and ranks % fixed:
        raise ValueError(f"{said}: {fixed} ranks do not divide the {ranks} that there are")
    sizes = [n or ranks // fixed for n in axes.values()]
    if prod(sizes) != ranks:
        raise ValueError(f"{said}: is a grid of {prod(sizes)} ranks, but there are {ranks}")
    return sizes
