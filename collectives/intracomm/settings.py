"""What a drop-in communicator is told, and hands on to those that are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import COLLECTIVES
from collectives.options import check_options, check_switches
from collectives.registry import REGISTRY

if TYPE_CHECKING:
    from collectives.intracomm.report import Report
    from collectives.table import Table

LIBRARY = "library"
"""Stands for the library's own call, in place of an algorithm."""

OURS = "ours"
"""Stands for what suits among ours, also where the library's own call is quicker."""


@dataclass(frozen=True, slots=True)
class DropInSettings:
    """How the collectives of a drop-in communicator are done.

    Attributes:
        algorithms: by collective: the name of an algorithm, "auto", `OURS`, or `LIBRARY`.
        executor: as in `collectives.options.Options`.
        table: as there.
        report: what counts the calls; None: nothing does.
        check: compare the calls of all ranks first.
        timeout: seconds after which a wait ends the job; None: never.

    Raises:
        TypeError: one of these is of another type.
        ValueError: there is no such algorithm or executor, or ``timeout`` is not above 0.
    """

    algorithms: Mapping[str, str]
    executor: str = "auto"
    table: Table | None = None
    report: Report | None = None
    check: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        for name, algorithm in self.algorithms.items():
            if not isinstance(algorithm, str):
                raise TypeError(f"{name}={algorithm!r}: needs a name")
            if algorithm in ("auto", OURS, LIBRARY):
                continue
            try:
                REGISTRY.get(COLLECTIVES[name], algorithm)
            except ValueError as error:
                raise ValueError(
                    f"{name}={algorithm!r}: {error}; or auto, {OURS}, {LIBRARY}"
                ) from None
        check_options(self.executor, self.table, self.timeout)
        check_switches(check=self.check)

    def wanted(self, collective: str) -> str:
        """Return how a collective is to be done.

        Who names an executor, or gives a table of what was measured, leaves open which of ours it
        is, but not whether it is one.
        """
        algorithm = self.algorithms[collective]
        named = self.executor != "auto" or self.table is not None
        return OURS if algorithm == "auto" and named else algorithm
