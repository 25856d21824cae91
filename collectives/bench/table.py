"""What was timed, as rows to keep and as a table to read."""

from __future__ import annotations

from collections.abc import Sequence

from collectives.bench.measure import Timing
from collectives.bench.row import DISTURBED, Row, bus_bandwidth
from collectives.bench.settings import Settings
from collectives.bench.variant import GLOO, LIBRARY, MEMORY
from collectives.collective import Collective

_COLUMNS = {
    "bytes": 10,
    "algorithm": 29,
    "executor": 9,
    "buffer": 9,
    "mode": 19,
    "runs": 5,
    "median us": 12,
    "min us": 11,
    "max us": 11,
    "GB/s": 10,
    "ratio": 7,
    "wrong": 7,
    "overlap": 9,
}
_TEXT = ("algorithm", "executor", "buffer", "mode")


def native_seconds(timings: Sequence[Timing], like: Timing) -> float | None:
    """Return the library's fastest median: of calls that are non-blocking as ``like`` is, or not.

    Returns:
        seconds, or None where it has no such call.
    """
    theirs = [t.median for t in _theirs(timings, like)]
    return min(theirs) if theirs else None


def rows(
    settings: Settings, mpi: str, ranks: int, nbytes: int, timings: Sequence[Timing]
) -> list[Row]:
    """Return a row for each of our ways among the timings, and for what is to be compared."""
    shown = {LIBRARY: LIBRARY in settings.compare, GLOO: True, MEMORY: False}
    found = []
    for t in timings:
        if not shown.get(t.label.executor, True):
            continue
        native = native_seconds(timings, t)
        overlaps = [o.overlap for o in _theirs(timings, t) if o.overlap is not None]
        found.append(
            Row(
                collective=settings.name,
                algorithm=t.label.algorithm,
                executor=t.label.executor,
                placement=t.label.placement,
                mpi=mpi,
                ranks=ranks,
                bytes=nbytes,
                median_us=t.median * 1e6,
                min_us=float(t.seconds.min()) * 1e6,
                max_us=float(t.seconds.max()) * 1e6,
                native_us=None if native is None else native * 1e6,
                ratio=None if native is None else t.median / native,
                busbw_GBps=bus_bandwidth(settings.collective, ranks, nbytes, t.median),
                wrong=t.wrong,
                mode=t.label.mode,
                chosen=t.label.chosen or t.label.algorithm,
                overlap=t.overlap,
                native_overlap=max(overlaps, default=None),
                calls=t.calls,
                disturbed=t.disturbed,
            )
        )
    return found


def heading(*, overlap: bool) -> str:
    """Return the head of the table, with or without the column for the overlap."""
    return _line(dict(zip(_COLUMNS, _COLUMNS, strict=True)), overlap)


def table(
    collective: Collective,
    ranks: int,
    nbytes: int,
    timings: Sequence[Timing],
    *,
    overlap: bool,
) -> str:
    """Return the lines of the table for one length, one for each timing."""
    lines = []
    for t in timings:
        native = native_seconds(timings, t)
        cells = {
            "bytes": str(nbytes),
            "algorithm": t.label.name,
            "executor": t.label.executor,
            "buffer": t.label.placement,
            "mode": t.label.mode,
            "runs": str(t.seconds.size),
            "median us": f"{1e6 * t.median:.2f}",
            "min us": f"{1e6 * t.seconds.min():.2f}",
            "max us": f"{1e6 * t.seconds.max():.2f}",
            "GB/s": f"{bus_bandwidth(collective, ranks, nbytes, t.median):.4g}",
            "ratio": "-" if native is None else f"{t.median / native:.2f}",
            "wrong": str(t.wrong),
            "overlap": "-" if t.overlap is None else f"{100 * t.overlap:.0f} %",
        }
        lines.append(_line(cells, overlap))
    worst = max(t.disturbed for t in timings)
    if worst > DISTURBED:
        lines.append(
            f"# in up to {100 * worst:.0f} % of the runs a rank lost its core to another program "
            "for a while: the machine is not quiet"
            + ("" if timings[0].calm else ", and those runs count, too")
        )
    return "\n".join(lines)


def _theirs(timings: Sequence[Timing], like: Timing) -> list[Timing]:
    """Return the library's timings that ``like`` is compared with."""
    mode = None if like.overlap is None else like.label.mode
    return [
        t
        for t in timings
        if t.label.executor == LIBRARY and mode == (None if t.overlap is None else t.label.mode)
    ]


def _line(cells: dict[str, str], overlap: bool) -> str:
    text = []
    for name, width in _COLUMNS.items():
        if name == "overlap" and not overlap:
            continue
        cell = cells[name]
        text.append(f" {cell:<{width - 1}}" if name in _TEXT else f"{cell:>{width}}")
    return "".join(text).rstrip()
