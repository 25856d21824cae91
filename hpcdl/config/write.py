"""Writing: a configuration as TOML, for the record of a run and as a commented example."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hpcdl.config.error import toml_value
from hpcdl.config.layers import (
    LAYERS,
    BatchNorm,
    Conv,
    Dense,
    GlobalAvgPool,
    Layer,
    MaxPool,
    ReLU,
    Residual,
)
from hpcdl.config.option import help_of
from hpcdl.config.schema import Config, Model

__all__ = ["example", "to_toml"]

_WIDTH = 100  # columns of the example

_EXAMPLE = Model(
    (
        Conv(16),
        BatchNorm(),
        ReLU(),
        MaxPool(2),
        Residual(body=(Conv(16), BatchNorm())),
        ReLU(),
        GlobalAvgPool(),
        Dense(10),
    )
)


def to_toml(config: Config) -> str:
    """Write every key of a configuration, so that ``load`` returns an equal one."""
    return "\n".join(_section(name, section, comments=False) for name, section in _sections(config))


def example() -> str:
    """Return a commented configuration: every key with its default, and a small network."""
    config = dataclasses.replace(Config(), model=_EXAMPLE)
    head = (
        "# Every key with its default; a key that is left out has it. Only [model] is needed.\n\n"
    )
    parts = [_section(name, section, comments=True) for name, section in _sections(config)]
    return head + "\n".join(parts)


def _sections(config: Config) -> list[tuple[str, Any]]:
    return [(field.name, getattr(config, field.name)) for field in dataclasses.fields(config)]


def _section(name: str, section: Any, *, comments: bool) -> str:
    title = f"  # {(section.__doc__ or '').splitlines()[0]}" if comments else ""
    lines = [f"[{name}]{title}"]
    kinds = get_type_hints(type(section))
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if name == "model" and field.name == "layers":
            lines += _layer_comments() if comments else []
            lines.append(f"layers = [\n{_layers(value, '    ', short=comments)}]")
            continue
        line = f"{field.name} = {toml_value(value)}"
        lines += _commented(line, field, kinds[field.name]) if comments else [line]
    return "\n".join(lines) + "\n"


def _commented(line: str, field: dataclasses.Field[Any], kind: Any) -> list[str]:
    """Put the help and the choices behind a line, or above it where they are long."""
    comment = f"# {help_of(field)}"
    if get_origin(kind) is Literal and len(get_args(kind)) > 1:
        comment += ": " + " | ".join(toml_value(choice) for choice in get_args(kind))
    joined = f"{line:<27} {comment}"
    return [joined] if len(joined) <= _WIDTH else [comment, line]


def _layer_comments() -> list[str]:
    """One line for each type of layer, with its keys and their defaults."""
    lines = ["# Each layer has a type and the keys of that type:"]
    for name, cls in LAYERS.items():
        keys = []
        for field in dataclasses.fields(cls):
            if field.default is dataclasses.MISSING or field.default is None:
                keys.append(f"{field.name} ({help_of(field)})")
            else:
                keys.append(f"{field.name} = {toml_value(field.default)}")
        text = f"{name}: {', '.join(keys) or 'no keys'}"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="#   ", subsequent_indent="#       ")
    return lines


def _layers(layers: Sequence[Layer], indent: str, *, short: bool) -> str:
    """Write one layer a line; the lists of a nested layer stand one step further in.

    Args:
        layers: the layers.
        indent: spaces before each.
        short: leave out the keys that have their default.
    """
    names = {cls: name for name, cls in LAYERS.items()}
    text = ""
    for layer in layers:
        pairs = [f"type = {toml_value(names[type(layer)])}"]
        for field in dataclasses.fields(layer):
            value = getattr(layer, field.name)
            # TOML has no null: a key that is None is always left out.
            if value is None or (short and value == field.default):
                continue
            if isinstance(value, tuple) and value:
                nested = _layers(value, indent + "    ", short=short)
                pairs.append(f"{field.name} = [\n{nested}{indent}]")
            else:
                pairs.append(f"{field.name} = {toml_value(value)}")
        text += f"{indent}{{ {', '.join(pairs)} }},\n"
    return text
