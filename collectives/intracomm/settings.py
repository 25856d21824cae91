"""What a drop-in communicator is told, and hands on to those that are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES
from collectives.registry import REGISTRY

if TYPE_CHECKING:
    from collectives.intracomm.report import Report
    from collectives.table import Table

LIBRARY = "library"
"""Stands for the library's own call, in place of an algorithm."""


@dataclass(frozen=True, slots=True)
class DropInSettings:
    """How the collectives of a drop-in communicator are done.

    Attributes:
        algorithms: by collective: the name of an algorithm, "auto", or `LIBRARY`.
        executor: as in `collectives.options.Options`.
        table: as there.
        report: what counts the calls; None: nothing does.

    Raises:
        ValueError: there is no such algorithm.
    """

    algorithms: Mapping[str, str]
    executor: str = "auto"
    table: Table | None = None
    report: Report | None = None

    def __post_init__(self) -> None:
        for name, algorithm in self.algorithms.items():
            if algorithm in ("auto", LIBRARY):
                continue
            try:
                REGISTRY.get(COLLECTIVES[name], algorithm)
            except ValueError as error:
                raise ValueError(f"{name}={algorithm!r}: {error}; or auto, or {LIBRARY}") from None
