"""Where the runs of a message lie: as arrays that schedules work on.

What is plain memory is worked on where it lies. Else (a datatype with gaps or in another order,
MPI.BOTTOM, memory that only MPI reaches) an array stands for it; the library itself copies between
the two, as a message of this process to itself, which every datatype allows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.intracomm.alone import Alone
from collectives.intracomm.kind import kept
from collectives.intracomm.memory import Opaque
from collectives.intracomm.message import Message
from collectives.memory import from_host, on_device, to_host

Copy = Callable[[], None]
"""A copy to be made before or after a run."""


class Placer:
    """Makes arrays of the runs of messages, and notes the copies that they need.

    Args:
        alone: converts between datatypes.
        direct: memory of a device is worked on where it lies; else host memory stands for it.

    Attributes:
        before: copies into arrays that stand for memory of the user, to be made before a run.
        after: copies back.
    """

    def __init__(self, alone: Alone, direct: bool) -> None:
        self._alone, self._direct = alone, direct
        self.before: list[Copy] = []
        self.after: list[Copy] = []

    def data(self, message: Message, *, load: bool = False, store: bool = False) -> Any:
        """Return the data of all runs, one after the other and without gaps: uint8 (bytes,).

        Args:
            message: the argument.
            load: the data is read.
            store: it is written.

        Raises:
            ValueError: the buffer is shorter than what is asked for.
        """
        kind, memory = message.kind, message.memory
        runs = list(zip(message.counts, message.displs, strict=True))
        dense = kind.dense and not isinstance(memory, Opaque)
        in_place = self._direct or not on_device(memory)
        if dense:
            parts = [_part(message, d * kind.size, (d + n) * kind.size) for n, d in runs]
            if in_place and all(d + n == after for (n, d), (_, after) in pairwise(runs)):
                start = runs[0][1]
                count, last = runs[-1]
                return _part(message, start * kind.size, (last + count) * kind.size)
        whole = np.empty(sum(message.counts) * kind.size, np.uint8)
        bounds = list(accumulate((n * kind.size for n in message.counts), initial=0))
        places = [whole[a:b] for a, b in pairwise(bounds)]
        if dense:
            for part, place in zip(parts, places, strict=True):
                self.copy(part, place, load, store)
            return whole
        buffer = message.buffer
        if on_device(memory):
            buffer = np.empty(len(memory), np.uint8)
            self.before.append(lambda: copy(memory, buffer))
        datatype = kind.datatype if kind.predefined else kept(kind.datatype)
        for (count, first), place in zip(runs, places, strict=True):
            if count:
                run = [buffer, (count, first), datatype]
                self._convert(run, [place, MPI.PACKED], load, store)
        if on_device(memory) and store:
            self.after.append(lambda: copy(buffer, memory))
        return whole

    def elements(
        self, message: Message, *, load: bool = False, store: bool = False, host: bool = False
    ) -> Any:
        """Return the elements of the only run, as an array of `Kind.element`, to be reduced.

        The datatype must be a predefined one. Other args and errors as for `data`.

        Args:
            message: the argument.
            load: the data is read.
            store: it is written.
            host: the array must lie on the host.
        """
        kind = message.kind
        (count,), (first,) = message.counts, message.displs
        start, stop = first * kind.extent, (first + count) * kind.extent
        stand_in = np.empty(stop - start, np.uint8)
        if isinstance(message.memory, Opaque):
            run = [message.buffer, (count, first), kind.datatype]
            self._convert(run, [stand_in, count, kind.datatype], load, store)
            return stand_in.view(kind.element)
        part = _part(message, start, stop)
        if on_device(part) and (host or not self._direct):
            self.copy(part, stand_in, load, store)
            return stand_in.view(kind.element)
        return part.view(kind.element)

    def copy(self, array: Any, stand_in: Any, load: bool = False, store: bool = False) -> None:
        """Note copies between an array and the one that stands for it."""
        if load:
            self.before.append(lambda: copy(array, stand_in))
        if store:
            self.after.append(lambda: copy(stand_in, array))

    def first(self, source: Any, target: Any) -> None:
        """Note a copy of one array to another, when ``source`` is loaded."""
        if not same_memory(source, target):
            self.before.append(lambda: copy(source, target))

    def last(self, source: Any, target: Any) -> None:
        """Note a copy of one array to another after a run, before ``target`` is stored."""
        if not same_memory(source, target):
            self.after.insert(0, lambda: copy(source, target))

    def _convert(self, run: list[Any], stand_in: list[Any], load: bool, store: bool) -> None:
        if load:
            self.before.append(lambda: self._alone.copy(run, stand_in))
        if store:
            self.after.append(lambda: self._alone.copy(stand_in, run))


def copy(source: Any, target: Any) -> None:
    """Copy an array to another, each on the host or on a device."""
    if not on_device(target):
        to_host(source, target)
    elif not on_device(source):
        from_host(source, target)
    else:
        target[...] = source


def same_memory(a: Any, b: Any) -> bool:
    """Return whether two arrays begin at the same address."""
    return _address(a) == _address(b) and on_device(a) == on_device(b)


def _address(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    return int(array.__cuda_array_interface__["data"][0])


def _part(message: Message, start: int, stop: int) -> Any:
    memory = message.memory
    if memory is None:  # MPI.BOTTOM, and an address of 0
        memory = np.empty(0, np.uint8)
    if start < stop and not 0 <= start < stop <= len(memory):
        raise ValueError(
            f"message: bytes {start}..{stop} are asked for; the buffer has {len(memory)}"
        )
    return memory[start:stop] if start < stop else memory[:0]
