"""Gather and scatter: what the arguments of the drop-in say is to be done.

The root alone knows the counts of the vector forms. So no rank can pass on the parts of others:
those go straight from the root or to it, whatever algorithm the settings name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from collectives.bind import Job
from collectives.blocks import Regions, share
from collectives.collective import GATHER, SCATTER, Collective
from collectives.intracomm.message import block_message, means_in_place, rank_of
from collectives.intracomm.move import bounds_of, check_length, runs
from collectives.intracomm.place import Placer
from collectives.intracomm.work import Here, Work

STRAIGHT = "linear"
"""The algorithm in which nobody passes on the parts of others."""


def gather(here: Here, sendbuf: Any, recvbuf: Any, root: Any, *, vector: bool) -> Work | None:
    """Read the arguments of Gather or, of a vector, of Gatherv."""
    return _rooted(GATHER, here, sendbuf, recvbuf, root, vector)


def scatter(here: Here, sendbuf: Any, recvbuf: Any, root: Any, *, vector: bool) -> Work | None:
    """Read the arguments of Scatter or, of a vector, of Scatterv."""
    return _rooted(SCATTER, here, recvbuf, sendbuf, root, vector)


def _rooted(
    collective: Collective, here: Here, part: Any, whole: Any, root: Any, vector: bool
) -> Work | None:
    """Read the argument that every rank has, ``part``, and that of the root, ``whole``."""
    rank, size = here.rank, here.size
    root = rank_of(root)
    if not 0 <= root < size:
        return None
    gathers = collective is GATHER
    placer = Placer(here.alone, here.direct)
    in_place = rank == root and means_in_place(part)
    everything: Any = None
    if rank == root:
        message = runs(whole, gathers, size, vector)
        everything = placer.data(message, load=in_place or not gathers, store=gathers)
        bounds = bounds_of(message)
    own: Any = None
    if not in_place:
        own = placer.data(block_message(part, not gathers), load=gathers, store=not gathers)
        if everything is None:
            bounds = [0] * (rank + 1) + [own.nbytes] * (size - rank)
            if not vector:
                bounds = [own.nbytes * r for r in range(size + 1)]
    source, target = (own, everything) if gathers else (everything, own)
    if everything is not None:
        # What the root has of its own is copied here, so that a plan serves all calls alike.
        mine = everything[bounds[rank] : bounds[rank + 1]]
        if own is not None:
            names = ("sendbuf", "recvbuf") if gathers else ("recvbuf", "sendbuf")
            check_length(names[0], own, f"what {names[1]} has for this rank", mine)
        if gathers:
            source = mine
            if own is not None:
                placer.first(own, mine)
        elif own is None:
            target = mine
        else:
            placer.last(mine, own)

    def blocks_of(blocks: int) -> Regions:
        # A tree passes on what belongs to others. Memory that is not touched costs nothing.
        places = np.empty(bounds[-1], np.uint8) if everything is None else everything
        each = blocks // size
        found: list[Any] = []
        for r in ((root + b) % size for b in range(size)):
            place = own if r == rank and everything is None else places[bounds[r] : bounds[r + 1]]
            found += [place[slice(*share(place.size, i, each))] for i in range(each)]
        return Regions(found)

    job = Job(
        collective,
        blocks_of,
        0 if vector else bounds[-1],
        root=root,
        source=source,
        target=target,
        bounds=bounds,
        layout=None if vector else (),
    )
    return Work(job, placer.before, placer.after, only=STRAIGHT if vector else "")
