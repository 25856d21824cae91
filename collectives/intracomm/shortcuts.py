"""The shortest way to what is left to the library.

A method in Python costs as much as a third of a short call of the library. So what is the library's
whatever its length is looked up in the object itself, where Python finds the library's own method.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from collectives.intracomm import reduce
from collectives.intracomm.quicker import least, quicker
from collectives.intracomm.settings import LIBRARY

if TYPE_CHECKING:
    from collectives.intracomm.engine import Engine

METHODS = {
    "Barrier": "barrier",
    "Bcast": "bcast",
    "Gather": "gather",
    "Gatherv": "gather",
    "Scatter": "scatter",
    "Scatterv": "scatter",
    "Allgather": "allgather",
    "Allgatherv": "allgather",
    "Alltoall": "alltoall",
    "Alltoallv": "alltoall",
    "Reduce": "reduce",
    "Allreduce": "allreduce",
    "Reduce_scatter_block": "reduce_scatter",
    "Reduce_scatter": "reduce_scatter",
}
"""The methods, and what they do."""


def shorten(comm: MPI.Intracomm, engine: Engine) -> None:
    """Give a drop-in communicator the shortest way to each call that is the library's."""
    found = vars(comm)
    for name, collective in METHODS.items():
        others = f"I{name.lower()}", f"{name}_init"
        for form in (name, *others):
            found.pop(form, None)  # of other settings
        wanted = engine.wanted(collective)
        if engine.told or wanted not in ("auto", LIBRARY):
            continue
        for form in others:
            found[form] = _own(comm, form)
        if wanted == LIBRARY or least(collective) == sys.maxsize:
            found[name] = _own(comm, name)
        elif name in ("Allreduce", "Reduce"):
            found[name] = (_allreduce if name == "Allreduce" else _reduce)(comm, engine)


def _own(comm: MPI.Intracomm, name: str) -> Any:
    """Return the library's method."""
    return getattr(MPI.Intracomm, name).__get__(comm)


def _allreduce(comm: MPI.Intracomm, engine: Engine) -> Any:
    library, low, array = _own(comm, "Allreduce"), least("allreduce"), np.ndarray

    def allreduce(sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM) -> None:
        """Reduce the data of all ranks on every rank."""
        if type(recvbuf) is array:
            short = recvbuf.nbytes < low or not quicker("allreduce", recvbuf.nbytes)
        else:
            short = at_most(recvbuf) < low
        if short:
            try:
                library(sendbuf, recvbuf, op)
                return
            except BufferError:  # such as of elements that it does not know
                pass
        engine.allreduce(library, sendbuf, recvbuf, op)

    return allreduce


def _reduce(comm: MPI.Intracomm, engine: Engine) -> Any:
    library, low, array = _own(comm, "Reduce"), least("reduce"), np.ndarray
    rank = comm.Get_rank()

    def reduce_(sendbuf: Any, recvbuf: Any, op: MPI.Op = MPI.SUM, root: int = 0) -> None:
        """Reduce the data of all ranks at ``root``."""
        data = recvbuf if rank == root else sendbuf
        if type(data) is array:
            short = data.nbytes < low or not quicker("reduce", data.nbytes)
        else:
            short = at_most(data) < low
        if short:
            try:
                library(sendbuf, recvbuf, op, root)
                return
            except BufferError:
                pass
        engine.run("reduce", reduce.reduce, library, sendbuf, recvbuf, op, root)

    return reduce_


def at_most(spec: Any) -> int:
    """Return how many bytes of data a buffer argument has at most; a large number if that is hard.

    A datatype of the user may make them more; then the call is the library's in any case.
    """
    kind = type(spec)
    if kind in (list, tuple) and spec:
        spec = spec[0]
        kind = type(spec)
    return spec.nbytes if kind in (np.ndarray, memoryview) else sys.maxsize
