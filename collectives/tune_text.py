"""The words that tuning and the check of a table have in common."""

from __future__ import annotations

from collectives.collective import BARRIER


def section_text(collective: str, placement: str) -> str:
    """Return the title of a section."""
    return f"{collective}, {placement}"


def case_text(collective: str, placement: str, nbytes: int) -> str:
    """Return the title of a length of a section; a barrier has none."""
    title = section_text(collective, placement)
    return title if collective == BARRIER.name else f"{title}, {nbytes} bytes"


def not_quiet(part: float) -> str:
    """Return what to say where a rank lost its core in that part of the runs, 0 to 1."""
    return (
        f"the machine is not quiet: in up to {100 * part:.0f} % of the runs a rank lost its core "
        "to another program"
    )
