"""One key of a configuration: its default, its help text, and the values it may have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = [
    "INCREASING",
    "LARGEST",
    "NOT_EMPTY",
    "Rule",
    "above",
    "at_least",
    "between",
    "count",
    "help_of",
    "option",
    "required",
    "rule_of",
]

T = TypeVar("T")

LARGEST = 2**31 - 1
"""Of all counts: more than any run needs, and within the integers of every library."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A condition on a value that already has the right type.

    Attributes:
        holds: tells whether a value is allowed.
        words: the condition in words, to stand behind the type: "an integer" + ">= 1".
    """

    holds: Callable[[Any], bool]
    words: str


def at_least(low: float) -> Rule:
    """Allow values >= ``low``."""
    return Rule(lambda v: bool(v >= low), f">= {low}")


def count(low: int, high: int = LARGEST) -> Rule:
    """Allow the integers from ``low`` to ``high``."""
    return Rule(lambda v: bool(low <= v <= high), f"from {low} to {high}")


def above(low: float) -> Rule:
    """Allow values > ``low``."""
    return Rule(lambda v: bool(v > low), f"> {low}")


def between(low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> Rule:
    """Allow the values of an interval; an open end is not part of it."""

    def holds(v: float) -> bool:
        return (v > low if open_low else v >= low) and (v < high if open_high else v <= high)

    return Rule(holds, f"in {'(' if open_low else '['}{low}, {high}{')' if open_high else ']'}")


INCREASING = Rule(
    lambda v: all(a < b <= LARGEST for a, b in zip((0, *v), v, strict=False)),
    f"from 1 to {LARGEST}, each above the last",
)
NOT_EMPTY = Rule(lambda v: len(v) > 0, "that is not empty")


def option(default: T, help: str, rule: Rule | None = None) -> T:
    """Declare a key of a section, inside a dataclass.

    Args:
        default: the value when the file does not give one.
        help: one line for the commented example.
        rule: what a value must fulfil besides its type.

    Returns:
        A dataclass field; the return type is the default's, as with ``dataclasses.field``.
    """
    return dataclasses.field(default=default, metadata={"help": help, "rule": rule})


def required(help: str, rule: Rule | None = None) -> Any:
    """Declare a key that has no default."""
    return dataclasses.field(metadata={"help": help, "rule": rule})


def help_of(field: dataclasses.Field[Any]) -> str:
    """Return the help text of a field declared with ``option`` or ``required``."""
    return str(field.metadata["help"])


def rule_of(field: dataclasses.Field[Any]) -> Rule | None:
    """Return the rule of a field declared with ``option`` or ``required``."""
    return cast("Rule | None", field.metadata["rule"])
