"""The error of every configuration that is refused, and the words it uses."""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Iterable

__all__ = ["ConfigError", "key_name", "suggestion", "toml_value"]


class ConfigError(ValueError):
    """A configuration is refused, before anything has started.

    Attributes:
        origin: where the value stands: ``FILE:LINE``, ``FILE``, or ``--set KEY=VALUE``.
        key: dotted name of the key, as ``model.layers[2].kernel``; empty if none is concerned.
        problem: what is wrong with it, the value it has, and what is allowed.
        plain: the message is for the user, and is printed without a traceback.
    """

    plain = True

    def __init__(self, origin: str, key: str, problem: str) -> None:
        super().__init__(f"{origin}: {problem}")
        self.origin = origin
        self.key = key
        self.problem = problem


def key_name(path: Iterable[str | int]) -> str:
    """Write a path as people read it: ``("model", "layers", 2)`` as ``model.layers[2]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean ...?)`` if a known word is close to this one, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def toml_value(value: object, limit: int | None = None) -> str:
    """Write a value in TOML's notation, on one line.

    Args:
        value: a bool, int, float, str, date, list, tuple or dict.
        limit: longest text wanted; a longer one is cut and ends in ``...``.

    Raises:
        TypeError: TOML has no such value.
    """
    text = _toml(value)
    return text if limit is None or len(text) <= limit else text[: limit - 3] + "..."


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML wants DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    raise TypeError(f"value = {value!r} ({type(value).__name__}) has no notation in TOML")
