"""What the subcommands share: numbers with units, lists of names, and errors in one line."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from collectives.collective import BARRIER, Collective

_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MAX_BYTES = 1 << 50
"""The longest buffer that is understood: 1 PiB."""

MAX_WHOLE = 10**18 - 1
"""The greatest whole number that is understood."""

MAX_SECONDS = 1e9
"""The longest time that is understood: some 30 years."""

MIN_RATE, MAX_RATE = 1e-9, 1e9
"""The bandwidths that are understood, in GB/s: from a byte a second on."""

MAX_PROVED = 512
"""The most ranks for which an algorithm is proved: the work grows with a power of their number."""

NUMBER = r"[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?"
"""How numbers are written that need not be whole: 3, 2.5, .5 or 1e-3."""

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class UsageError(ValueError):
    """The command line asks for something that is not there. The message says what is."""

    plain = True


class Once(argparse.Action):
    """Stores a value, and refuses an option that comes again: one of the two would be forgotten."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store the value."""
        if option_string is not None and isinstance(parser, Parser):
            if self.dest in parser.given:
                raise argparse.ArgumentError(self, "is given twice; say it once")
            parser.given.add(self.dest)
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose help keeps its line breaks.

    Attributes:
        given: where the values go of the options that it has seen.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**kwargs)
        self.given: set[str] = set()
        self.register("action", None, Once)
        # So -1us is a value, of which can be said what is wrong, and no option.
        self._negative_number_matcher = re.compile(r"-\.?[0-9]")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words, as all parsers do."""
        self.given.clear()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End the program with exit code 2 and one line."""
        # What argparse says of an option without its value, or with one that it does not take,
        # does not tell what is allowed.
        message = message.replace("ignored explicit argument", "takes no value, and has")
        option = re.fullmatch(r"argument (?:\S*/)?(\S+): expected one argument", message)
        action = self._option_string_actions.get(option[1]) if option else None
        if action is not None:
            message = message.replace("expected one argument", f"needs a value: {action.help}")
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def nbytes(text: str) -> int:
    """Read a number of bytes: 8, 1K, 64K, 1M, 2G (powers of 1024).

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    match = re.fullmatch(r"([0-9]+)([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of bytes; say it as 8, 1K, 64K, 1M or 2G"
        )
    number = _whole(match[1]) * _BYTES[match[2].upper()]
    if number > MAX_BYTES:
        raise argparse.ArgumentTypeError(
            f"{text!r} is too long; the most is {MAX_BYTES} bytes (1 PiB)"
        )
    return number


def byte_sizes(text: str) -> list[int]:
    """Read a list of numbers of bytes: ``8,1K,64K`` or, doubling, ``8:64M``.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    sizes: list[int] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        low, high = nbytes(first), nbytes(last if colon else first)
        if low < 1 or high < low:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a range of bytes; it needs 1 <= first <= last, as in 8:64M"
            )
        while low <= high:
            sizes.append(low)
            low *= 2
    return [*dict.fromkeys(sizes)]


def rank_counts(text: str) -> list[int]:
    """Read a list of numbers of ranks: ``1:33`` (both included), ``2,3,8`` or both mixed.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?::([0-9]+))?", part.strip())
        low, high = (_whole(match[1]), _whole(match[2] or match[1])) if match else (0, 0)
        if low < 1 or high < low:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a number of ranks nor a range of them; say 8, 2,3,8 or 1:33"
            )
        if high > MAX_PROVED:
            raise argparse.ArgumentTypeError(
                f"{part!r} is too many ranks; the most is {MAX_PROVED} ranks"
            )
        counts += range(low, high + 1)
    return [*dict.fromkeys(counts)]


def _whole(text: str) -> int:
    """Return what decimal digits say, -1 for other text, and `MAX_WHOLE` + 1 for any that is more.

    Python itself refuses to read some thousands of digits.
    """
    if not re.fullmatch("[0-9]+", text):
        return -1
    return int(text) if len(text) <= len(str(MAX_WHOLE)) else MAX_WHOLE + 1


def positive(text: str) -> int:
    """Read an int above 0.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    return _from(1, text, "above 0")


def natural(text: str) -> int:
    """Read an int, 0 or more.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    return _from(0, text, "of 0 or more")


def _from(least: int, text: str, what: str) -> int:
    number = _whole(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {what}")
    if number > MAX_WHOLE:
        raise argparse.ArgumentTypeError(f"{text!r} is too large; the most is {MAX_WHOLE}")
    return number


def ranks_up_to(most: int) -> Callable[[str], int]:
    """Return a function that reads a number of ranks from 1 to ``most``.

    It raises argparse.ArgumentTypeError where the text is not one.
    """

    def ranks(text: str) -> int:
        if _whole(text) > most:
            raise argparse.ArgumentTypeError(f"{text!r} is too many ranks; the most is {most}")
        return positive(text)

    return ranks


def seconds(text: str) -> float:
    """Read a time: 250ns, 1.5us, 2ms, 0.1s; only 0 needs no unit.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    match = re.fullmatch(rf"({NUMBER})\s*(ns|us|ms|s|)", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; say it as 250ns, 1.5us, 2ms or 0.1s"
        )
    number, unit = float(match[1]), match[2].lower()
    if number and not unit:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a time needs a unit, {', '.join(_SECONDS)}, as in 1.5us or 0.1s"
        )
    value = number * _SECONDS[unit] if unit else 0.0
    if value > MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; the most is {MAX_SECONDS:g} s")
    return value


def rate(text: str) -> float:
    """Read a bandwidth in GB/s.

    Raises:
        argparse.ArgumentTypeError: it is not one.
    """
    value = float(text) if re.fullmatch(NUMBER, text, re.IGNORECASE) else math.nan
    if not MIN_RATE <= value <= MAX_RATE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of GB/s from {MIN_RATE:g} to {MAX_RATE:g}; "
            "100 Gbit/s are 12.5"
        )
    return value


def names(text: str) -> list[str]:
    """Read a list of names: ``ring,tree``, also with tunables: ``chain:segments=8,tree``.

    Raises:
        argparse.ArgumentTypeError: there is no name in it.
    """
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if found and ":" in found[-1] and "=" in part and ":" not in part:
            found[-1] += f",{part}"  # another tunable of the same algorithm
        elif part:
            found.append(part)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing; say one name, or some: a,b")
    return [*dict.fromkeys(found)]


def file_name(text: str) -> Path:
    """Read the name of a file.

    Raises:
        argparse.ArgumentTypeError: it is empty, which is the folder where one is to pathlib.
    """
    if not text:
        raise argparse.ArgumentTypeError("'' is not the name of a file")
    return Path(text)


def add_ranks(
    parser: argparse.ArgumentParser, most: int, default: int | None = None, *, what: str = ""
) -> None:
    """Add the option ``-n``, ``--ranks``, which is needed where it has no default.

    Args:
        parser: of the command.
        most: ranks.
        default: ranks.
        what: said of it in the help.
    """
    said = [*([what] if what else ()), *([] if default is None else [f"default {default}"])]
    parser.add_argument(
        "-n",
        "--ranks",
        type=ranks_up_to(most),
        default=default,
        required=default is None,
        metavar="P",
        help="; ".join((*said, f"at most {most}")),
    )


def add_bytes(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--bytes``; `bytes_of` reads it."""
    parser.add_argument(
        "--bytes",
        type=nbytes,
        metavar="N",
        help="buffer of a rank: 8, 64K, 100M; a barrier needs none",
    )


def bytes_of(args: argparse.Namespace, collective: Collective) -> int:
    """Return the number of bytes that was given; 0 for a barrier.

    Raises:
        UsageError: it is missing.
    """
    if collective is BARRIER:
        return 0
    if args.bytes is None:
        raise UsageError("say how long the buffer of a rank is, as in --bytes 64K")
    length: int = args.bytes
    return length
