"""The result of a benchmark: rows, a table to read, JSON to keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from collectives.bench.measure import Timing
from collectives.bench.variant import LIBRARY
from collectives.collective import Collective

COLUMNS = ("bytes", "algorithm", "runs", "median us", "min us", "max us", "busbw GB/s", "ratio")
_WIDTHS = (11, 20, 6, 12, 12, 12, 11, 8)


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm at one length.

    Attributes:
        collective: name.
        algorithm: name.
        executor: what runs the schedule.
        placement: where the buffers lie: "private" memory of each rank.
        mpi: the MPI library and its version.
        ranks: number of ranks.
        bytes: length of the buffer of a rank.
        median_us: microseconds of a call, on the slowest rank: the median of the repetitions.
        min_us: their least.
        max_us: their greatest.
        native_us: the median of the library's own call, in place or out of place: the faster one.
        ratio: median_us / native_us.
        busbw_GBps: bus bandwidth (see `bus_bandwidth`) at the median.
        wrong: elements, on all ranks, that differ from the library's result.
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
    native_us: float
    ratio: float
    busbw_GBps: float
    wrong: int


def bus_bandwidth(collective: Collective, ranks: int, nbytes: int, seconds: float) -> float:
    """Return the bus bandwidth in GB/s, as nccl-tests define it.

    It is bytes over time, times what a rank must send at least for each byte of the buffer: so it
    can be compared with the bandwidth of the hardware, whatever the number of ranks. ``nbytes`` is
    the whole buffer: for reduce_scatter, allgather and alltoall that of all parts together.
    """
    once = (ranks - 1) / ranks
    factor = {"allreduce": 2 * once, "bcast": 1.0, "reduce": 1.0}.get(collective.name, once)
    return factor * nbytes / seconds / 1e9


def rows(
    collective: Collective, mpi: str, ranks: int, nbytes: int, timings: Sequence[Timing]
) -> list[Row]:
    """Return a row for each algorithm among the timings."""
    native = min(t.median for t in timings if t.name in LIBRARY)
    return [
        Row(
            collective=collective.name,
            algorithm=t.name,
            executor="python",
            placement="private",
            mpi=mpi,
            ranks=ranks,
            bytes=nbytes,
            median_us=t.median * 1e6,
            min_us=float(t.seconds.min()) * 1e6,
            max_us=float(t.seconds.max()) * 1e6,
            native_us=native * 1e6,
            ratio=t.median / native,
            busbw_GBps=bus_bandwidth(collective, ranks, nbytes, t.median),
            wrong=t.wrong,
        )
        for t in timings
        if t.name not in LIBRARY
    ]


def heading() -> str:
    """Return the head of the table."""
    return _line((*COLUMNS, "wrong"))


def table(collective: Collective, ranks: int, nbytes: int, timings: Sequence[Timing]) -> str:
    """Return the lines of the table for one length: the library's calls, then the algorithms."""
    native = min(t.median for t in timings if t.name in LIBRARY)
    lines = []
    for t in timings:
        times = [f"{1e6 * v:.2f}" for v in (t.median, t.seconds.min(), t.seconds.max())]
        bandwidth = f"{bus_bandwidth(collective, ranks, nbytes, t.median):.4g}"
        cells = (str(nbytes), t.name, str(t.seconds.size), *times, bandwidth)
        lines.append(_line((*cells, f"{t.median / native:.2f}", str(t.wrong))))
    return "\n".join(lines)


def write_json(path: Path, found: Sequence[Row]) -> None:
    """Write the rows as a JSON list of objects."""
    path.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")


def _line(cells: Sequence[str]) -> str:
    first, name, *numbers, wrong = cells
    middle = "".join(n.rjust(w) for n, w in zip(numbers, _WIDTHS[2:], strict=True))
    return f"{first:>{_WIDTHS[0]}}  {name:{_WIDTHS[1]}}{middle}{wrong:>8}"
