"""The table of algorithms: each file of `collectives.algorithms` enters itself with a decorator."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from collectives.collective import Collective
from collectives.step import Generator

Made = TypeVar("Made", bound=Generator)

_NO_TUNABLES: Mapping[str, Tunable] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tunable:
    """A keyword of an algorithm that changes its cost and not its result.

    Attributes:
        default: its value where nobody says.
        values: ``values(size)`` -> those that are worth a try on ``size`` ranks, as a tuner does.
        meaning: a few words for ``python -m collectives list``.
        choices: for a tunable that is a name: those that there are; None: it is a whole number.
        least: the smallest number allowed.
        most: the greatest.
    """

    default: int | str
    values: Callable[[int], Sequence[int | str]]
    meaning: str
    choices: Callable[[], Sequence[str]] | None = None
    least: int = 1
    most: int = 1 << 16

    def parse(self, label: str, value: Any) -> int | str:
        """Return the value, as a number where it is one.

        Raises:
            ValueError: it is not allowed; the message begins with ``label``.
        """
        if self.choices is not None:
            if value not in self.choices():
                raise ValueError(f"{label}={value}: is one of {', '.join(self.choices())}")
            return str(value)
        try:
            number = int(value) if isinstance(value, str) else operator.index(value)
        except (TypeError, ValueError):
            more = "; tunables are separated by commas" if ":" in str(value) else ""
            raise ValueError(f"{label}={value!r}: needs a whole number{more}") from None
        if number < self.least:
            raise ValueError(f"{label}={number}: needs at least {self.least}")
        if number > self.most:
            raise ValueError(f"{label}={number}: needs at most {self.most}")
        return number


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to do one collective.

    Attributes:
        collective: what it does.
        name: unique among the algorithms of that collective.
        blocks: ``blocks(size)`` -> the number of blocks that the data is split into.
        generate: ``generate(rank, size)`` yields the rounds (see `collectives.step`).
        paper: where it comes from.
        tunables: keywords of ``generate`` and ``blocks`` that may be set (see `tuned`).
        settings: those that are set.
    """

    collective: Collective
    name: str
    blocks: Callable[..., int]
    generate: Generator
    paper: str
    tunables: Mapping[str, Tunable] = field(default_factory=lambda: _NO_TUNABLES)
    settings: Mapping[str, int | str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def summary(self) -> str:
        """The first line of the generator's docstring."""
        generate = self.generate
        while isinstance(generate, functools.partial):
            generate = generate.func
        return (generate.__doc__ or "").strip().split("\n")[0]

    @property
    def spec(self) -> str:
        """The name with what is set, as `Registry.get` takes it: ``chain:segments=8``."""
        if not self.settings:
            return self.name
        return f"{self.name}:" + ",".join(f"{k}={v}" for k, v in self.settings.items())

    def tuned(self, **settings: int | str) -> Algorithm:
        """Return the algorithm with tunables set.

        Raises:
            ValueError: there is no such tunable, or it does not take this value.
        """
        values = dict(self.settings)
        for key, value in settings.items():
            if key not in self.tunables:
                known = ", ".join(self.tunables) or "none"
                raise ValueError(
                    f"{key}={value}: {self.collective.name} {self.name} has no such tunable; "
                    f"it has: {known}"
                )
            values[key] = self.tunables[key].parse(key, value)
        if not settings:
            return self
        return replace(
            self,
            blocks=functools.partial(self.blocks, **values),
            generate=functools.partial(self.generate, **values),
            settings=MappingProxyType(values),
        )


class Registry:
    """Algorithms by collective and name."""

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
        """Return the names of the algorithms of a collective, in alphabetical order."""
        return sorted(self._table.get(collective.name, {}))

    def get(self, collective: Collective, spec: str) -> Algorithm:
        """Return an algorithm by its name, or by a name with tunables: ``chain:segments=8``.

        Raises:
            ValueError: there is none of that name, or no such tunable; the message lists those
                that there are.
        """
        name, _, settings = spec.partition(":")
        try:
            found = self._table[collective.name][name]
        except KeyError:
            known = ", ".join(self.names(collective)) or "none"
            raise ValueError(
                f"algorithm={spec!r}: {collective.name} has no such algorithm; it has: {known}"
            ) from None
        if not settings:
            return found
        pairs = [pair.partition("=") for pair in settings.split(",")]
        if any(not (key and equals and value) for key, equals, value in pairs):
            raise ValueError(f"algorithm={spec!r}: needs NAME or NAME:KEY=VALUE,KEY=VALUE")
        given = {key: value for key, _, value in pairs}
        if len(given) < len(pairs):
            raise ValueError(f"algorithm={spec!r}: sets a tunable twice")
        try:
            return found.tuned(**given)
        except ValueError as error:
            raise ValueError(f"algorithm={spec!r}: {error}") from None

    def all(self) -> list[Algorithm]:
        """Return every algorithm of every collective, those of each in alphabetical order."""
        return [names[name] for names in self._table.values() for name in sorted(names)]


REGISTRY = Registry()
"""The algorithms that ship. `import collectives.algorithms` fills it."""


def algorithm(
    collective: Collective,
    *,
    blocks: Callable[..., int],
    paper: str,
    name: str | None = None,
    tunables: Mapping[str, Tunable] = _NO_TUNABLES,
    registry: Registry = REGISTRY,
) -> Callable[[Made], Made]:
    """Enter the decorated generator of rounds in the registry; its name is the function's.

    Args:
        collective: what the schedule does.
        blocks: the number of blocks for a number of ranks, and the tunables as keywords.
        paper: authors and year, or the report, that it comes from.
        name: another name than the function's.
        tunables: keywords of the generator (with the same defaults) that may be tuned.
        registry: another table than the one that ships.
    """

    def enter(generate: Made) -> Made:
        label = name if name is not None else str(getattr(generate, "__name__", ""))
        registry.add(
            Algorithm(collective, label, blocks, generate, paper, MappingProxyType(dict(tunables)))
        )
        return generate

    return enter
