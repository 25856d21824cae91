"""From plain tables to a ``Config``: types, limits, unknown and missing keys."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hpcdl.config.error import ConfigError, key_name, suggestion, toml_value
from hpcdl.config.layers import LAYERS, Layer
from hpcdl.config.lines import Path
from hpcdl.config.option import Rule, rule_of
from hpcdl.config.schema import Config

__all__ = ["Reader"]

_DEEPEST = 32  # layers within layers: each is a call within a call in training


class Reader:
    """Builds the typed configuration out of the tables that a TOML parser returns.

    Args:
        origins: where each key stands (``FILE:LINE`` or ``--set ...``); ``()`` has the file's name.
        texts: values from the command line as they were typed; a key that wants a string takes
            that, so that ``run.dir=2031`` needs no quotes.
    """

    def __init__(self, origins: Mapping[Path, str], texts: Mapping[Path, str]) -> None:
        self._origins = origins
        self._texts = texts

    def config(self, tables: Mapping[str, Any]) -> Config:
        """Check every key and value.

        Args:
            tables: section -> key -> value.

        Raises:
            ConfigError: a key is unknown or missing, a value has the wrong type or is impossible.
        """
        config: Config = self._table(Config, tables, ())
        if not config.model.layers:
            raise self.error(
                ("model", "layers"), "model.layers is missing; list at least one layer"
            )
        self._check_combinations(config)
        return config

    def error(self, path: Path, problem: str) -> ConfigError:
        """Return the error for a key, with the place of it or of the table it belongs to."""
        known = next(path[:n] for n in range(len(path), -1, -1) if path[:n] in self._origins)
        return ConfigError(self._origins[known], key_name(path), problem)

    def _refuse(self, path: Path, raw: Any, allowed: str) -> ConfigError:
        shown = toml_value(raw, limit=80)
        problem = f"{key_name(path)} = {shown} is not allowed; it must be {allowed}"
        return self.error(path, problem)

    def _table(self, cls: type[Any], raw: Any, path: Path) -> Any:
        if not isinstance(raw, Mapping):
            raise self._refuse(path, raw, "a table")
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for key in raw:
            if key not in fields and not (key == "type" and issubclass(cls, Layer)):
                raise self._unknown((*path, key), list(fields))
        kinds = get_type_hints(cls)
        values = {}
        for name, field in fields.items():
            rule = rule_of(field) if field.metadata else None
            if name in raw:
                values[name] = self._value(kinds[name], raw[name], (*path, name), rule)
            elif field.default is dataclasses.MISSING:
                wanted = _words(kinds[name], rule)
                raise self.error(path, f"{key_name(path)} lacks {name}; it must be {wanted}")
        return cls(**values)

    def _unknown(self, path: Path, known: list[str]) -> ConfigError:
        table, key = key_name(path[:-1]), str(path[-1])
        hint = suggestion(key, known)
        where = f"the keys of {table}" if table else "the sections"
        listed = ", ".join(known) or "none but type"
        return self.error(path, f"{key_name(path)} is unknown{hint}; {where} are: {listed}")

    def _value(self, kind: Any, raw: Any, path: Path, rule: Rule | None) -> Any:
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._layer(raw, path) if kind is Layer else self._table(kind, raw, path)
        if kind is str and not isinstance(raw, str):
            raw = self._texts.get(path, raw)
        if isinstance(raw, list) and get_origin(kind) is tuple:
            item = get_args(kind)[0]
            value: Any = tuple(
                self._value(item, entry, (*path, i), None) for i, entry in enumerate(raw)
            )
        else:
            value = _scalar(kind, raw)
        if value is None or (rule is not None and not rule.holds(value)):
            hint = ""
            if isinstance(raw, str) and get_origin(kind) is Literal:
                hint = suggestion(raw, get_args(kind))
            raise self._refuse(path, raw, _words(kind, rule) + hint)
        return value

    def _layer(self, raw: Any, path: Path) -> Any:
        if (len(path) - len(("model", "layers", 0))) // 2 > _DEEPEST:
            raise self.error(path[:3], f"{key_name(path[:3])} nests more than {_DEEPEST} layers")
        names = ", ".join(f'"{name}"' for name in LAYERS)
        if not isinstance(raw, Mapping):
            raise self._refuse(path, raw, 'a table with a type, as { type = "relu" }')
        if "type" not in raw:
            raise self.error(path, f"{key_name(path)} lacks type; it must be one of {names}")
        name = raw["type"]
        if not isinstance(name, str) or name not in LAYERS:
            hint = suggestion(str(name), LAYERS)
            raise self._refuse((*path, "type"), name, f"one of {names}{hint}")
        return self._table(LAYERS[name], raw, path)

    def _check_combinations(self, config: Config) -> None:
        """Refuse values that are possible alone and impossible together."""
        data, schedule = config.data, config.schedule
        if not data.file and not data.builtin:
            raise self._refuse(("data", "file"), "", 'a file, or data.builtin must be "digits"')
        if bool(data.test_input) != bool(data.test_target):
            empty = "test_target" if data.test_input else "test_input"
            raise self._refuse(("data", empty), "", "given, or both test keys must be empty")
        if config.optimizer.nesterov and config.optimizer.momentum == 0:
            raise self._refuse(("optimizer", "nesterov"), True, "false when momentum is 0")
        if schedule.name == "step" and not schedule.milestones:
            allowed = 'a list of at least one epoch when schedule.name is "step"'
            raise self._refuse(("schedule", "milestones"), [], allowed)
        if schedule.warmup_epochs > config.train.epochs:
            allowed = f"at most train.epochs = {config.train.epochs}"
            raise self._refuse(("schedule", "warmup_epochs"), schedule.warmup_epochs, allowed)


def _scalar(kind: Any, raw: Any) -> Any:
    """Return the value as ``kind``, or None, which TOML does not have, if it is not of it."""
    if get_origin(kind) in (Union, types.UnionType):  # int | None: the key may be left out
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is Literal:
        return raw if isinstance(raw, str) and raw in get_args(kind) else None
    if kind is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        try:
            return float(raw) if math.isfinite(raw) else None
        except OverflowError:
            return None
    return raw if type(raw) is kind else None


def _words(kind: Any, rule: Rule | None) -> str:
    """Say in words which values a key takes."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f'"{name}"' for name in get_args(kind))
    if get_origin(kind) is tuple:
        words = "a list of " + ("layers" if get_args(kind)[0] is Layer else "integers")
    else:
        names = {bool: "true or false", int: "an integer", float: "a finite number"}
        words = names.get(kind, "a string")
    return words if rule is None else f"{words} {rule.words}"
