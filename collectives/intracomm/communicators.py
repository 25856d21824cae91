"""The communicators of the drop-in: what is made from one is one too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from collectives.intracomm.blocking import Blocking
from collectives.intracomm.engine import Engine, Family
from collectives.intracomm.nonblocking import NonBlockingCollectives
from collectives.intracomm.persistent import PersistentCollectives
from collectives.intracomm.shortcuts import shorten


class Intracomm(Blocking, NonBlockingCollectives, PersistentCollectives):
    """An intracommunicator whose collectives on buffers are ours; see `as_intracomm`."""

    def Clone(self) -> Any:
        """Duplicate the communicator."""
        return self._made(super().Clone())

    def Dup(self, info: MPI.Info | None = None) -> Any:
        """Duplicate the communicator."""
        return self._made(super().Dup(info))

    def Dup_with_info(self, info: MPI.Info) -> Any:
        """Duplicate the communicator, with hints."""
        return self._made(super().Dup_with_info(info))

    def Create(self, group: MPI.Group) -> Any:
        """Make a communicator of a group."""
        return self._made(super().Create(group))

    def Create_group(self, group: MPI.Group, tag: int = 0) -> Any:
        """Make a communicator of a group; only its ranks take part."""
        return self._made(super().Create_group(group, tag))

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Split the communicator by color and key."""
        return self._made(super().Split(color, key))

    def Split_type(self, split_type: int, key: int = 0, info: MPI.Info = MPI.INFO_NULL) -> Any:
        """Split the communicator by what ranks share."""
        return self._made(super().Split_type(split_type, key, info))

    def Create_cart(self, *args: Any, **kwargs: Any) -> Any:
        """Make a communicator with a Cartesian topology."""
        return self._made(super().Create_cart(*args, **kwargs))

    def Create_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Make a communicator with the topology of a graph."""
        return self._made(super().Create_graph(*args, **kwargs))

    def Create_dist_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Make a communicator with the topology of a distributed graph."""
        return self._made(super().Create_dist_graph(*args, **kwargs))

    def Create_dist_graph_adjacent(self, *args: Any, **kwargs: Any) -> Any:
        """Make a communicator with the topology of a distributed graph."""
        return self._made(super().Create_dist_graph_adjacent(*args, **kwargs))

    def __reduce__(self) -> Any:
        """Return how to pickle it: in the place of MPI.COMM_WORLD by that name, as that is."""
        return (_world, ()) if self is MPI.COMM_WORLD else super().__reduce__()

    def _made(self, comm: MPI.Comm) -> MPI.Comm:
        return comm if self._engine is None else adopt(comm, self._engine.family)


def _world() -> MPI.Comm:
    """Return what stands in the place of MPI.COMM_WORLD where this is called."""
    return MPI.COMM_WORLD


class Cartcomm(Intracomm, MPI.Cartcomm):
    """`Intracomm` with a Cartesian topology."""

    def Sub(self, *args: Any, **kwargs: Any) -> Any:
        """Make the communicators of the slices of the topology."""
        return self._made(super().Sub(*args, **kwargs))


class Graphcomm(Intracomm, MPI.Graphcomm):
    """`Intracomm` with the topology of a graph."""


class Distgraphcomm(Intracomm, MPI.Distgraphcomm):
    """`Intracomm` with the topology of a distributed graph."""


_CLASSES: tuple[tuple[type[MPI.Comm], Callable[[Any], Intracomm]], ...] = (
    (MPI.Cartcomm, Cartcomm),
    (MPI.Graphcomm, Graphcomm),
    (MPI.Distgraphcomm, Distgraphcomm),
    (MPI.Intracomm, Intracomm),
)


def adopt(comm: MPI.Comm, family: Family) -> MPI.Comm:
    """Return a communicator as one of the family; MPI.COMM_NULL as it is. Collective."""
    if not comm:
        return comm
    for base, make in _CLASSES:
        if isinstance(comm, base):
            ours = comm if isinstance(comm, Intracomm) else make(comm)
            ours._engine = Engine(ours, family)
            shorten(ours, ours._engine)
            return ours
    raise TypeError(f"comm: is a {type(comm).__name__}; needs an intracommunicator")
