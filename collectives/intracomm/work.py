"""A call of the drop-in whose arguments are read: a job, and the copies around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from collectives.bind import Job
from collectives.blocks import share
from collectives.intracomm.alone import Alone
from collectives.intracomm.place import Copy


@dataclass(frozen=True, slots=True)
class Here:
    """Where a call is made.

    Attributes:
        rank: of this process.
        size: of the communicator.
        alone: messages of this process to itself.
        direct: memory of a device is worked on where it lies.
        collect: returns the whole numbers of all ranks; collective.
    """

    rank: int
    size: int
    alone: Alone
    direct: bool
    collect: Callable[[int], list[int]]


@dataclass(frozen=True, slots=True)
class Work:
    """What a call has to do.

    Attributes:
        job: the collective itself.
        before: copies to be made first, in each run.
        after: copies to be made when it is finished.
        only: the one algorithm that will do, whatever the settings say; "": any.
        library: the library knows such elements, too.
    """

    job: Job
    before: Sequence[Copy] = field(default=())
    after: Sequence[Copy] = field(default=())
    only: str = ""
    library: bool = True


def cut(bounds: Sequence[int], each: int) -> list[int]:
    """Cut each part between two bounds into ``each`` parts of nearly equal length."""
    inner = [a + share(b - a, i, each)[0] for a, b in pairwise(bounds) for i in range(each)]
    return [*inner, bounds[-1]]
