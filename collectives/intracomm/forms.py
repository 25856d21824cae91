"""What a form of a collective can be done with, of all that can do the collective itself."""

from __future__ import annotations

from collectives.collective import COLLECTIVES
from collectives.intracomm.report import Shape, Way
from collectives.intracomm.rooted import STRAIGHT
from collectives.registry import REGISTRY


def can_take(call: str, shape: Shape, way: Way) -> bool:
    """Return whether a form of a collective can be done in a way, as `Engine` does it.

    Args:
        call: the method, as ``Iallreduce``.
        shape: of the call.
        way: algorithm and executor.
    """
    blocks = not call.startswith("I")
    # Of these no rank knows all lengths, so what passes data on cannot do them.
    straight = call.removesuffix("_init").lower().endswith(("gatherv", "scatterv", "alltoallv"))
    straight = straight and shape.collective != "allgather"
    if way.executor == "shared":
        return blocks and not straight
    if not straight:
        return True
    if shape.collective != "alltoall":
        return way.algorithm == STRAIGHT
    found = REGISTRY.get(COLLECTIVES[shape.collective], way.algorithm)
    return found.blocks(shape.ranks) == 2 * shape.ranks
