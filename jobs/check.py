"""Checks of what goes into a batch script; a ValueError names the argument and its value."""

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_DIRECTIVE_VALUE = re.compile(r"[\w./%+=:,@*&|()\[\] -]+")
_DIRECTIVE = re.compile(r"(--[a-z][a-z-]*)(?:=(.+))?")


def number(argument: str, value: object, low: int, high: int) -> None:
    """Refuse anything but an int from ``low`` to ``high``, both included."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(
            f"{argument} is {value!r}, but must be a whole number from {low} to {high}"
        )


def name(argument: str, value: object) -> None:
    """Refuse anything but a short name that needs no quotes anywhere."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            f"{argument} is {value!r}, but must be 1 to 64 letters, digits, '.', '_', '+' or '-', "
            "a letter or digit first"
        )


def line(argument: str, value: object) -> None:
    """Refuse anything but one line of printable text; the shell's own signs are allowed."""
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{argument} is {value!r}, but must be one line of printable text")


def lines(argument: str, values: object) -> None:
    """Refuse anything but a tuple of lines."""
    if not isinstance(values, tuple):
        raise ValueError(
            f"{argument} is {values!r}, but must be a tuple (in TOML: a list) of strings"
        )
    for index, value in enumerate(values):
        line(f"{argument}[{index}]", value)


def directive_value(argument: str, value: object) -> None:
    """Refuse what sbatch would not read back unchanged from an ``#SBATCH`` line.

    sbatch takes quotes, backslashes and ``#`` in such a line as signs of its own.
    """
    if not isinstance(value, str) or not _DIRECTIVE_VALUE.fullmatch(value):
        raise ValueError(
            f"{argument} is {value!r}, but must be letters, digits, blanks and any of "
            "_./%+=:,@*&|()[]-"
        )


def directives(argument: str, values: object, reserved: Iterable[str]) -> None:
    """Refuse anything but a tuple of sbatch's long options, without those in ``reserved``."""
    lines(argument, values)
    assert isinstance(values, tuple)
    for index, value in enumerate(values):
        match = _DIRECTIVE.fullmatch(value)
        if match is None:
            raise ValueError(
                f"{argument}[{index}] is {value!r}, but must be an option of sbatch in its long "
                "form, as '--exclusive' or '--account=physics'"
            )
        if match[1] in reserved:
            raise ValueError(
                f"{argument}[{index}] is {value!r}, but {match[1]} is set from the job; "
                f"so are {', '.join(sorted(reserved))}"
            )
        if match[2] is not None:
            directive_value(f"{argument}[{index}]", match[2])
