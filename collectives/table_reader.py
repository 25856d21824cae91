"""Read the tables of `collectives.table`.

What is read is checked throughout; an error names the file, and the line or the key.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.candidates import SHARED
from collectives.collective import COLLECTIVES
from collectives.fit import Fit
from collectives.model import PARAMETERS, Model
from collectives.registry import REGISTRY
from collectives.table import (
    EXECUTORS,
    FORMAT,
    PLACEMENTS,
    VERSION,
    Breakpoint,
    Section,
    Table,
    Way,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 4 << 20
"""A file that is longer than this is no table."""

MAX_NUMBER = 1 << 50
"""The greatest length, in bytes, and the greatest number of ranks."""

MIN_TIME, MAX_TIME = 1e-15, 1e15
"""The shortest and the longest time, in any unit; models have costs of 0, too."""

MAX_NAME = 100
"""The longest name of an algorithm, with its tunables."""

MAX_BLOCKS = 1 << 24
"""An algorithm that cuts buffers into more blocks is not taken from a table."""

T = TypeVar("T")


class TableError(ValueError):
    """A file is no tuning table, or not one for here. The message names the file and the place."""

    plain = True


def read(path: str | Path, mpi: str | None = None) -> Table:
    """Read a table; the arguments and errors are those of `collectives.table.Table.load`."""
    try:
        if Path(path).is_fifo():
            raise TableError(f"{path}: is a pipe; needs a file")
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise TableError(f"{path}: is longer than {MAX_BYTES >> 20} MiB, so no tuning table")
    reader = _Reader(str(path))
    table = reader.table(reader.parse(data))
    if mpi is not None and table.mpi != mpi:
        raise TableError(
            f"{path}: mpi: was measured with {table.mpi}, and this is {mpi}; measure again with "
            "'python -m collectives tune'"
        )
    return table


_KINDS: dict[type, str] = {str: "a text", list: "a list", dict: "a table"}


class _Reader:
    """Checks what a file holds. Every error names the file and the key."""

    def __init__(self, path: str) -> None:
        self._path = path

    def parse(self, data: bytes) -> dict[str, Any]:
        try:
            return tomllib.loads(data.decode())
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise TableError(f"{self._path}: line {line}: not UTF-8 text") from None
        except tomllib.TOMLDecodeError as error:
            lines = data.count(b"\n") + 1
            place = "" if "line" in str(error) else f"line {lines}: "
            raise TableError(f"{self._path}: {place}not TOML, or cut short: {error}") from None
        except RecursionError:
            raise TableError(f"{self._path}: lists are nested too deeply") from None
        except ValueError as error:  # as of a number of thousands of digits
            raise TableError(f"{self._path}: a value cannot be read: {error}") from None

    def table(self, root: dict[str, Any]) -> Table:
        if root.get("format") != FORMAT:
            raise TableError(
                f"{self._path}: format: is no {FORMAT!r}; 'python -m collectives tune' writes one"
            )
        if type(root.get("version")) is not int or root["version"] != VERSION:
            raise TableError(
                f"{self._path}: version: is {_shown(root.get('version'))}; this library reads "
                f"{VERSION}"
            )
        models = self.get(root, "", "model", dict)
        for executor in models:
            self.one_of(f"model.{executor}", executor, EXECUTORS)
        return Table(
            machine=self.get(root, "", "machine", str),
            mpi=self.get(root, "", "mpi", str),
            date=self.get(root, "", "date", str),
            fits={
                e: self.fit(f"model.{e}.", self.a(f"model.{e}", v, dict)) for e, v in models.items()
            },
            sections=tuple(self.sections(self.get(root, "", "section", list))),
        )

    def sections(self, found: list[Any]) -> Iterator[Section]:
        first: dict[tuple[object, ...], int] = {}
        for i, entry in enumerate(found):
            at = f"section[{i}]"
            section = self.section(f"{at}.", self.a(at, entry, dict))
            case = section.collective, section.ranks, section.placement, section.itemsize
            if first.setdefault(case, i) != i:
                what = "collective, ranks, placement and itemsize"
                self.wrong(at, list(case), f"section[{first[case]}] has that {what}, too")
            yield section

    def fit(self, at: str, found: dict[str, Any]) -> Fit:
        values = {n: self.positive(at + n, found.get(n), zero=True) for n in PARAMETERS}
        intervals = {}
        for name in PARAMETERS:
            key = f"{name}_interval"
            if key in found:
                ends = self.numbers(at + key, found[key], zero=True)
                if len(ends) != 2:
                    self.wrong(at + key, found[key], "needs two numbers")
                intervals[name] = ends[0], ends[1]
        residual = self.positive(f"{at}residual", found.get("residual"), zero=True)
        return Fit(Model(**values), residual, intervals)

    def section(self, at: str, found: dict[str, Any]) -> Section:
        collective = self.get(found, at, "collective", str)
        self.one_of(f"{at}collective", collective, tuple(COLLECTIVES))
        placement = self.get(found, at, "placement", str)
        self.one_of(f"{at}placement", placement, PLACEMENTS)
        ranks = self.whole(f"{at}ranks", found.get("ranks"), least=1)
        lengths = enumerate(self.get(found, at, "bytes", list))
        sizes = tuple(self.whole(f"{at}bytes[{i}]", n, least=0) for i, n in lengths)
        self.ascending(f"{at}bytes", sizes)
        seconds: dict[Way, tuple[float, ...]] = {}
        for i, entry in enumerate(self.get(found, at, "measured", list)):
            key = f"{at}measured[{i}]."
            entry = self.a(key[:-1], entry, dict)
            times = self.numbers(f"{key}us", entry.get("us"))
            if len(times) != len(sizes):
                self.wrong(f"{key}us", entry["us"], f"needs {len(sizes)} numbers, as 'bytes' has")
            way = self.way(key, collective, ranks, entry)
            if way in seconds:
                self.wrong(key[:-1], list(way), "stands there twice")
            seconds[way] = tuple(1e-6 * t for t in times)
        breakpoints = []
        for i, entry in enumerate(self.get(found, at, "choice", list)):
            key = f"{at}choice[{i}]."
            entry = self.a(key[:-1], entry, dict)
            breakpoints.append(
                Breakpoint(
                    self.whole(f"{key}bytes", entry.get("bytes"), least=0),
                    self.way(key, collective, ranks, entry),
                    1e-6 * self.positive(f"{key}us", entry.get("us")),
                )
            )
            if breakpoints[-1].way not in seconds:
                self.wrong(key[:-1], entry, f"is not among those in {at}measured")
        self.ascending(f"{at}choice", [b.nbytes for b in breakpoints])
        return Section(
            collective,
            ranks,
            placement,
            self.whole(f"{at}itemsize", found.get("itemsize"), least=1),
            sizes,
            seconds,
            tuple(breakpoints),
        )

    def way(self, at: str, collective: str, ranks: int, found: dict[str, Any]) -> Way:
        algorithm = self.get(found, at, "algorithm", str)
        executor = self.get(found, at, "executor", str)
        self.one_of(f"{at}executor", executor, EXECUTORS)
        if executor == SHARED.executor:
            if algorithm != SHARED.algorithm:
                self.wrong(f"{at}algorithm", algorithm, f"on shared it is {SHARED.algorithm}")
            return SHARED
        if len(algorithm) > MAX_NAME:
            self.wrong(f"{at}algorithm", algorithm, f"is longer than {MAX_NAME} letters")
        try:
            found_algorithm = REGISTRY.get(COLLECTIVES[collective], algorithm)
        except ValueError as error:
            raise TableError(f"{self._path}: {at}{error}") from None
        if found_algorithm.blocks(ranks) > MAX_BLOCKS:
            self.wrong(f"{at}algorithm", algorithm, f"makes more than {MAX_BLOCKS} blocks")
        return Way(algorithm, executor)

    def get(self, found: dict[str, Any], at: str, key: str, kind: type[T]) -> T:
        """Return a value of the right kind."""
        if key not in found:
            raise TableError(f"{self._path}: {at}{key}: is missing")
        return self.a(at + key, found[key], kind)

    def a(self, at: str, value: Any, kind: type[T]) -> T:
        if not isinstance(value, kind):
            self.wrong(at, value, f"needs {_KINDS[kind]}")
        return value

    def one_of(self, at: str, value: str, known: Sequence[str]) -> None:
        if value not in known:
            self.wrong(at, value, f"is one of {', '.join(known)}")

    def whole(self, at: str, value: Any, least: int) -> int:
        if type(value) is not int or not least <= value <= MAX_NUMBER:
            self.wrong(at, value, f"needs a whole number, {least} to {MAX_NUMBER}")
        return int(value)

    def positive(self, at: str, value: Any, *, zero: bool = False) -> float:
        least = 0 if zero else MIN_TIME
        if type(value) not in (int, float) or not least <= value <= MAX_TIME:
            self.wrong(at, value, f"needs a number, {least:g} to {MAX_TIME:g}")
        return float(value)

    def numbers(self, at: str, value: Any, *, zero: bool = False) -> list[float]:
        each = enumerate(self.a(at, value, list))
        return [self.positive(f"{at}[{i}]", v, zero=zero) for i, v in each]

    def ascending(self, at: str, values: Sequence[int]) -> None:
        if not values:
            self.wrong(at, list(values), "needs at least one")
        if any(a >= b for a, b in pairwise(values)):
            self.wrong(at, list(values), "needs ascending lengths")

    def wrong(self, at: str, value: Any, needed: str) -> NoReturn:
        raise TableError(f"{self._path}: {at}: is {_shown(value)}; {needed}")


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer that is too long to be written in decimals
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
