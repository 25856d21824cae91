"""The options that all collectives take."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from collectives.traffic import Traffic

if TYPE_CHECKING:
    from collectives.table import Table


SCHEDULED = ("python", "native")
"""The executors that run schedules."""

EXECUTORS = (*SCHEDULED, "shared")
"""All of them."""


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
        TypeError: there is no such option, or it is of another type.
        ValueError: there is no such executor, or a timeout is not above 0.
    """
    known = [f.name for f in fields(Settings)]
    for name in options:
        if name not in known:
            raise TypeError(
                f"{name}={options[name]!r}: no such option; there are {', '.join(known)}"
            )
    settings = Settings(**options)
    if not isinstance(settings.algorithm, str):
        raise TypeError(f"algorithm={settings.algorithm!r}: needs a name")
    if settings.traffic is not None and not isinstance(settings.traffic, Traffic):
        raise TypeError(f"traffic={settings.traffic!r}: needs a collectives.Traffic, or None")
    check_options(settings.executor, settings.table, settings.timeout)
    check_switches(check=settings.check, background=settings.background)
    return settings


def check_options(executor: object, table: object, timeout: object) -> None:
    """Raise if one of these, as in `Options`, will not do.

    Raises:
        TypeError: one is of another type.
        ValueError: there is no such executor, or the timeout is not above 0.
    """
    if not isinstance(executor, str) or executor not in ("auto", *EXECUTORS):
        raise ValueError(f"executor={executor!r}: is one of auto, {', '.join(EXECUTORS)}")
    if table is not None:
        from collectives.table import Table

        if not isinstance(table, Table):
            raise TypeError(
                f"table={table!r}: needs a collectives.Table, as Table.load(path) gives it, or None"
            )
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, Real):
            raise TypeError(f"timeout={timeout!r}: needs a number of seconds above 0, or None")
        if not float(timeout) > 0:
            raise ValueError(f"timeout={timeout}: needs a number of seconds above 0")


def check_switches(**switches: object) -> None:
    """Raise TypeError if one of these, by name, is neither True nor False."""
    for name, value in switches.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}={value!r}: needs True or False")
