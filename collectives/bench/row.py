"""The result of a benchmark: rows, and JSON to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from collectives.collective import Collective

DISTURBED = 0.1
"""If a greater part of the repetitions was disturbed, it is told that the machine is not quiet."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to do a collective, at one length.

    Attributes:
        collective: name; with a v where the parts are uneven.
        algorithm: name, with what was set (``chain:segments=8``), or ``auto``.
        executor: what runs the schedule: "python", "native" or "shared"; where a comparison was
            asked for also "library" for the MPI library's own calls, and "gloo".
        placement: where the buffers lie: in "private" memory of each rank, or in the shared
            "window" of the node.
        mpi: the MPI library and its version.
        ranks: number of ranks.
        bytes: length of the buffer of a rank.
        median_us: microseconds of a call, on the slowest rank: the median of the repetitions. With
            an overlap: of the collective alone, begun and waited for.
        min_us: their least.
        max_us: their greatest.
        native_us: the median of the library's own call, in place or out of place: the faster one.
            With an overlap: of its non-blocking call. None where it has none for the dtype.
        ratio: median_us / native_us; None as above.
        busbw_GBps: bus bandwidth (see `bus_bandwidth`) at the median.
        wrong: elements, on all ranks, that differ from the library's result.
        mode: of `collectives.bench.settings.MODES`.
        chosen: the algorithm that ran: another than ``algorithm`` where that is ``auto``.
        overlap: the part of the collective's time that a computation beside it could use, 0 to 1;
            None where that was not measured.
        native_overlap: the same of the library's non-blocking call: the better one.
        calls: in a row, that were timed as one; the times are of one of them.
        disturbed: the part of the repetitions, 0 to 1, in which a rank lost its core for a while.
    """

    collective: str
    algorithm: str
    executor: str
    placement: str
    mpi: str
    ranks: int
    bytes: int
    median_us: float
    min_us: float
    max_us: float
    native_us: float | None
    ratio: float | None
    busbw_GBps: float
    wrong: int
    mode: str
    chosen: str
    overlap: float | None
    native_overlap: float | None
    calls: int
    disturbed: float


def bus_bandwidth(collective: Collective, ranks: int, nbytes: int, seconds: float) -> float:
    """Return the bus bandwidth in GB/s, as nccl-tests define it.

    It is bytes over time, times what a rank must send at least for each byte of the buffer: so it
    can be compared with the bandwidth of the hardware, whatever the number of ranks. ``nbytes`` is
    the whole buffer: for those with parts that of all parts together.
    """
    once = (ranks - 1) / ranks
    factor = {"allreduce": 2 * once, "bcast": 1.0, "reduce": 1.0}.get(collective.name, once)
    return factor * nbytes / seconds / 1e9


def json_text(found: Sequence[Row]) -> str:
    """Return the rows as a JSON list of objects."""
    return json.dumps([asdict(row) for row in found], indent=1) + "\n"
