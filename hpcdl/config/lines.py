"""The line on which each key of a TOML document stands.

TOML parsers forget positions once a document has been read, and a message about a wrong value
needs one. The scanner below walks a document that a parser has already accepted, so it can be
short: it finds keys and values, and does not check them.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Path", "key_lines"]

Path = tuple[str | int, ...]  # keys of tables and indices of arrays, from the root

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?""""{0,2}'  # up to two quotes may stand before the closing three
    r"|'''.*?''''{0,2}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}\n#]*")


def key_lines(text: str) -> dict[Path, int]:
    """Find the line of every key, table and array element of a valid TOML document.

    Args:
        text: the document, as a TOML parser has accepted it.

    Returns:
        Path from the root, as ``("model", "layers", 2, "kernel")``, to the line, counted from 1.
        A table that is opened several times has the line where it appears first.
    """
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.newlines = [m.start() for m in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.last: dict[Path, int] = {}  # index of the newest table of each array of tables

    def document(self) -> dict[Path, int]:
        table: Path = ()
        while self.skip(_BLANK) < len(self.text):
            start = self.at
            brackets = 2 if self.text.startswith("[[", start) else int(self.text[start] == "[")
            if not brackets:
                self.pair(table)
                continue
            self.at += brackets
            table = self.resolve(self.key())
            self.at += brackets
            if brackets == 2:
                self.note(table, start)
                self.last[table] = self.last.get(table, -1) + 1
                table += (self.last[table],)
            self.note(table, start)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at

    def note(self, path: Path, position: int) -> None:
        line = bisect_left(self.newlines, position) + 1
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], line)

    def resolve(self, key: Path) -> Path:
        """Put the index of the newest table behind each part of a header that names an array."""
        path: Path = ()
        for part in key[:-1]:
            path += (part,)
            if path in self.last:
                path += (self.last[path],)
        return path + key[-1:]

    def key(self) -> Path:
        parts: list[str] = []
        while True:
            start = self.skip(_SPACE)
            if self.text[start] in "\"'":
                end = self.skip(_STRING)
                parts.append(tomllib.loads(f"key = {self.text[start:end]}")["key"])
            else:
                parts.append(self.text[start : self.skip(_BARE_KEY)])
            if self.text[self.skip(_SPACE)] != ".":
                return tuple(parts)
            self.at += 1

    def pair(self, table: Path) -> None:
        start = self.at
        path = table + self.key()
        self.note(path, start)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self.value(path)

    def value(self, path: Path) -> None:
        first = self.text[self.at]
        if first in "\"'":
            self.skip(_STRING)
        elif first in "[{":
            self.items(path, "]" if first == "[" else "}")
        else:
            self.skip(_BARE_VALUE)

    def items(self, path: Path, end: str) -> None:
        self.at += 1
        index = 0
        while self.text[self.skip(_BLANK)] != end:
            if end == "]":
                self.note((*path, index), self.at)
                self.value((*path, index))
                index += 1
            else:
                self.pair(path)
            if self.text[self.skip(_BLANK)] == ",":
                self.at += 1
        self.at += 1
