"""Loading: a file or a shipped configuration, with changes from the command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path as FilePath
from typing import Any

from hpcdl.config.error import ConfigError, key_name, suggestion
from hpcdl.config.lines import Path, key_lines
from hpcdl.config.read import Reader
from hpcdl.config.schema import Config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["load", "names", "parse"]


def names() -> list[str]:
    """Return the names of the configurations that ship with the package, sorted."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in resources.files("hpcdl").joinpath("configs").iterdir()
        if entry.name.endswith(".toml")
    )


def load(path_or_name: str | FilePath, overrides: Iterable[str] = ()) -> Config:
    """Read a configuration and check all of it.

    Args:
        path_or_name: the path of a TOML file if it ends with ``.toml`` or has a slash, else the
            name of a shipped configuration, as ``digits-cnn``.
        overrides: ``section.key=value`` each, applied in order; the value is TOML, or else taken
            as a string. An index chooses from a list: ``model.layers.0.channels=32``.

    Raises:
        ConfigError: nothing to read, not TOML, or a key or value is refused.
    """
    name = str(path_or_name)
    if name.endswith(".toml") or "/" in name:
        source: Any = FilePath(name)
    elif name in names():
        source = resources.files("hpcdl").joinpath("configs", f"{name}.toml")
    else:
        known = ", ".join(names())
        problem = f"no such configuration{suggestion(name, names())}; shipped are: {known}"
        raise ConfigError(name, "", f"{problem}; the path of a file ends with .toml or has a slash")
    if isinstance(source, FilePath) and (source.is_fifo() or source.is_char_device()):
        raise ConfigError(name, "", "cannot be read: not a regular file")
    try:
        text = source.read_text(encoding="utf-8-sig")  # editors of some systems write a mark first
    except UnicodeDecodeError as error:
        raise ConfigError(str(source), "", f"not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise ConfigError(str(source), "", f"cannot be read: {error.strerror}") from error
    return parse(text, str(source), overrides)


def parse(text: str, origin: str = "<text>", overrides: Iterable[str] = ()) -> Config:
    """Check a configuration given as text; the arguments and errors are those of ``load``.

    Args:
        text: a TOML document.
        origin: how errors name it.
        overrides: see ``load``.
    """
    try:
        return _parse(text, origin, overrides)
    except ConfigError:
        raise
    except RecursionError as error:
        raise ConfigError(origin, "", "lists or tables are nested too deeply") from error
    except ValueError as error:  # the parser's own, as of an integer of thousands of digits
        raise ConfigError(origin, "", f"a value cannot be read: {error}") from error


def _parse(text: str, origin: str, overrides: Iterable[str]) -> Config:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        number = int(line[1]) if line else max(1, len(text.splitlines()))
        raise ConfigError(f"{origin}:{number}", "", f"not valid TOML: {error}") from error
    origins: dict[Path, str] = {(): origin}
    origins.update((path, f"{origin}:{line}") for path, line in key_lines(text).items())
    texts: dict[Path, str] = {}
    for override in overrides:
        try:
            override.encode()
        except UnicodeEncodeError as error:
            problem = f"not {error.encoding.upper()} text: {error.reason}"
            raise ConfigError(f"--set {override!a}", "", problem) from error
        path, value = _apply(override, tables, origins)
        for replaced in [old for old in [*origins, *texts] if old[: len(path)] == path]:
            origins.pop(replaced, None)
            texts.pop(replaced, None)
        origins[path] = _origin(override)
        texts[path] = value
    return Reader(origins, texts).config(tables)


def _apply(override: str, tables: dict[str, Any], origins: dict[Path, str]) -> tuple[Path, str]:
    """Put one ``section.key=value`` into the tables; return its path and the value's text."""
    origin = _origin(override)
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(origin, dotted, "not of the form section.key=value")
    path: Path = ()
    target: Any = tables
    for depth, key in enumerate(keys):
        if isinstance(target, list):
            if not key.isdecimal() or len(key) > 9 or int(key) >= len(target):
                allowed = f"it must be an index from 0 to {len(target) - 1}"
                raise ConfigError(origin, dotted, f"{key_name(path)} has no {key!r}; {allowed}")
            part: str | int = int(key)
        elif isinstance(target, dict):
            part = key
        else:
            raise ConfigError(origin, dotted, f"{key_name(path)} is a value; it has no key {key!r}")
        path += (part,)
        if depth == len(keys) - 1:
            target[part] = _value(text, origin)
        elif isinstance(target, dict) and part not in target:
            target[part] = {}
            origins[path] = origin
        target = target[part]
    return path, text


def _origin(override: str) -> str:
    longest = 500
    return f"--set {override if len(override) <= longest else override[:longest] + '...'}"


def _value(text: str, origin: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError as error:
        raise ConfigError(origin, "", "lists or tables are nested too deeply") from error
    except ValueError as error:
        raise ConfigError(origin, "", f"the value cannot be read: {error}") from error
    # A text with a line break could bring a second key with it.
    return parsed["value"] if list(parsed) == ["value"] else text
