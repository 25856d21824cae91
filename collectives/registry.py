"""The table of algorithms: each file of `collectives.algorithms` enters itself with a decorator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collectives.collective import Collective
from collectives.step import Generator


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to do one collective.

    Attributes:
        collective: what it does.
        name: unique among the algorithms of that collective.
        blocks: ``blocks(size)`` -> the number of blocks that the data is split into.
        generate: ``generate(rank, size)`` yields the rounds (see `collectives.step`).
        paper: where it comes from.
    """

    collective: Collective
    name: str
    blocks: Callable[[int], int]
    generate: Generator
    paper: str

    @property
    def summary(self) -> str:
        """The first line of the generator's docstring."""
        return (self.generate.__doc__ or "").strip().split("\n")[0]


class Registry:
    """Algorithms by collective and name, in the order in which they were entered."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, Algorithm]] = {}

    def add(self, algorithm: Algorithm) -> None:
        """Enter an algorithm.

        Raises:
            ValueError: the collective has one of that name already.
        """
        names = self._table.setdefault(algorithm.collective.name, {})
        if algorithm.name in names:
            raise ValueError(
                f"{algorithm.collective.name} has an algorithm {algorithm.name!r} already"
            )
        names[algorithm.name] = algorithm

    def names(self, collective: Collective) -> list[str]:
        """Return the names of the algorithms of a collective."""
        return list(self._table.get(collective.name, {}))

    def get(self, collective: Collective, name: str) -> Algorithm:
        """Return an algorithm.

        Raises:
            ValueError: there is none of that name; the message lists those that there are.
        """
        try:
            return self._table[collective.name][name]
        except KeyError:
            known = ", ".join(self.names(collective)) or "none"
            raise ValueError(
                f"algorithm={name!r}: {collective.name} has no such algorithm; it has: {known}"
            ) from None

    def all(self) -> list[Algorithm]:
        """Return every algorithm of every collective."""
        return [a for names in self._table.values() for a in names.values()]


REGISTRY = Registry()
"""The algorithms that ship. `import collectives.algorithms` fills it."""


def algorithm(
    collective: Collective,
    *,
    blocks: Callable[[int], int],
    paper: str,
    name: str | None = None,
    registry: Registry = REGISTRY,
) -> Callable[[Generator], Generator]:
    """Enter the decorated generator of rounds in the registry; its name is the function's.

    Args:
        collective: what the schedule does.
        blocks: the number of blocks for a number of ranks.
        paper: authors and year, or the report, that it comes from.
        name: another name than the function's.
        registry: another table than the one that ships.
    """

    def enter(generate: Generator) -> Generator:
        label = name if name is not None else str(getattr(generate, "__name__", ""))
        registry.add(Algorithm(collective, label, blocks, generate, paper))
        return generate

    return enter
