"""Tunables of algorithms that are made of others."""

from __future__ import annotations

from collections.abc import Callable

from collectives.collective import Collective
from collectives.registry import REGISTRY, Tunable

NAME = "hierarchical"


def node_size() -> Tunable:
    """Return the tunable for the number of ranks in a group."""
    return Tunable(
        4,
        lambda size: [n for n in (2, 4, 8, 16, 32, 64, 128) if n < size] or [1],
        "ranks in a group, as on a node",
    )


def choice(default: str, where: str, *collectives: Collective) -> Tunable:
    """Return the tunable for an algorithm that all these collectives have, by name."""

    def names() -> list[str]:
        common = set.intersection(*({*REGISTRY.names(c)} for c in collectives))
        return [n for n in REGISTRY.names(collectives[0]) if n in common and n != NAME]

    return _of(names, default, where)


def either(default: str, where: str, *collectives: Collective) -> Tunable:
    """Return the tunable for an algorithm that any of these collectives has, by name."""

    def names() -> list[str]:
        every = {n for c in collectives for n in REGISTRY.names(c)}
        return sorted(every - {NAME})

    return _of(names, default, where)


def _of(names: Callable[[], list[str]], default: str, where: str) -> Tunable:
    return Tunable(default, lambda size: names(), f"algorithm {where}", choices=names)
