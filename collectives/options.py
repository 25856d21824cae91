"""The options that all collectives take."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from collectives.traffic import Traffic

if TYPE_CHECKING:
    from collectives.table import Table


class Options(TypedDict, total=False):
    """Keywords of every collective.

    Attributes:
        algorithm: a name that ``python -m collectives list`` shows, with tunables where it has
            some (``chain:segments=8``), or "auto".
        executor: "python", "native", "shared", or "auto".
        table: what `collectives.tune` measured on this machine; it rules what "auto" means.
        traffic: counters to add to.
        check: compare the call on all ranks first (see `collectives.agreement`).
        background: make progress between `start` and `wait` in a thread of its own, while Python
            computes (see `collectives.executors.background`); needs the native executor.
        timeout: seconds after which a wait shows the stacks of all ranks and ends the job (see
            `collectives.watchdog`).
    """

    algorithm: str
    executor: str
    table: Table | None
    traffic: Traffic | None
    check: bool
    background: bool
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Settings:
    """`Options` with their defaults filled in."""

    algorithm: str = "auto"
    executor: str = "auto"
    table: Table | None = None
    traffic: Traffic | None = None
    check: bool = False
    background: bool = False
    timeout: float | None = None

    @property
    def compared(self) -> dict[str, object]:
        """What must be the same on all ranks, by name."""
        table = None if self.table is None else f"one, {zlib.crc32(repr(self.table).encode()):08x}"
        return {
            "algorithm": self.algorithm,
            "executor": self.executor,
            "background": self.background,
            "table": table,
            "timeout": None if self.timeout is None else "one",  # its making takes all ranks
        }


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the options with their defaults filled in.

    Raises:
        TypeError: there is no such option.
        ValueError: a timeout is not above 0.
    """
    known = [f.name for f in fields(Settings)]
    for name in options:
        if name not in known:
            raise TypeError(
                f"{name}={options[name]!r}: no such option; there are {', '.join(known)}"
            )
    settings = Settings(**options)
    if settings.timeout is not None and not settings.timeout > 0:
        raise ValueError(f"timeout={settings.timeout}: needs a number of seconds above 0")
    return settings
