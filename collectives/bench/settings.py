"""What to time, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectives.collective import Collective
from collectives.op import SUM, Op

if TYPE_CHECKING:
    from collectives.table import Table

DTYPES = ("float32", "float64", "int32", "int64", "float16", "bfloat16")
"""The dtypes of the elements. The library cannot reduce the last two, which are then compared with
a sum in float64, and have no ratio."""

AUTO = "auto"
"""What the library takes by itself: of algorithms, and of executors."""

PYTHON, NATIVE, SHARED = EXECUTORS = ("python", "native", "shared")
"""What runs a schedule."""

PRIVATE, WINDOW = PLACEMENTS = ("private", "window")
"""Where the buffers lie: in each rank's own memory, or in the window that a node's ranks share."""

IN_PLACE, OUT_OF_PLACE, CALL, OVERLAP, OVERLAP_TEST, OVERLAP_BACKGROUND = MODES = (
    "in-place",
    "out-of-place",
    "call",
    "overlap",
    "overlap-test",
    "overlap-background",
)
"""How a collective is used. The first two run a plan that was made once; "call" is one function
call for all, with the making of the plan. The others start a plan, compute, and wait for it:
"overlap-test" with a test between pieces of the computation, "overlap-background" with the plan in
a thread of its own."""

OVERLAPS = MODES[3:]
"""Those with a computation."""

COMPARED = ("library", "gloo")
"""What may have rows of its own: the MPI library's calls, and the Gloo library through PyTorch."""

UNEVEN = ("allgather", "alltoall", "gather", "scatter")
"""The collectives that also come with parts of different lengths: MPI appends a v to the name."""

LEAST = 5
"""Fewer repetitions make no median."""

MOST = 1000
"""As many repetitions, and hardly anything changes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to time.

    Attributes:
        collective: which one.
        algorithms: of that collective, as `collectives.registry.Registry.get` takes them, or
            "auto"; None: all.
        sizes: bytes of the buffer of a rank: of the vector that is reduced or broadcast, of all
            parts together for reduce_scatter, allgather, alltoall, gather and scatter.
        uneven: parts of different lengths (allgatherv, alltoallv, gatherv, scatterv).
        executors: of `EXECUTORS`, or "auto".
        placements: of `PLACEMENTS`.
        modes: of `MODES`; None: in place, or out of place where a collective has no other way.
        compare: of `COMPARED`.
        table: what "auto" goes by (see `collectives.tune`).
        dtype: of the elements.
        op: of the reductions.
        batch: calls, one right after the other, that are timed as one. With more than one the
            root of a rooted collective runs ahead of the others, and its time says little.
        budget: seconds for each size.
        least: at least as many repetitions, however long they take.
        most: at most as many, however short they are.
    """

    collective: Collective
    algorithms: tuple[str, ...] | None
    sizes: tuple[int, ...]
    uneven: bool = False
    executors: tuple[str, ...] = (AUTO,)
    placements: tuple[str, ...] = (PRIVATE,)
    modes: tuple[str, ...] | None = None
    compare: tuple[str, ...] = ()
    table: Table | None = None
    dtype: str = "float32"
    op: Op = SUM
    batch: int = 1
    budget: float = 1.0
    least: int = LEAST
    most: int = MOST

    @property
    def name(self) -> str:
        """The name of the collective, with a v where its parts are uneven."""
        return self.collective.name + "v" * self.uneven

    @property
    def reduces(self) -> bool:
        """Whether the collective reduces."""
        return self.collective.name in ("allreduce", "reduce", "reduce_scatter")
