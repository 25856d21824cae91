"""What differs between two configurations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hpcdl.config.error import ConfigError, toml_value
from hpcdl.config.load import load
from hpcdl.config.schema import Config


def changed_settings(record: Path, config: Config) -> list[str]:
    """Say which settings differ from those of an earlier run, as ``optimizer.lr 0.1 -> 0.3``.

    Args:
        record: the earlier run's configuration; if it cannot be read, nothing is said.
        config: the present one.

    Returns:
        A text for each key that differs; of [run] only seed and dtype count, and of the layers no
        more is said than that they differ.
    """
    try:
        earlier = load(str(record)) if record.is_file() else config
    except ConfigError:
        return []
    changes = []
    for section in dataclasses.fields(Config):
        old, new = getattr(earlier, section.name), getattr(config, section.name)
        for field in dataclasses.fields(old):
            key = f"{section.name}.{field.name}"
            was, now = getattr(old, field.name), getattr(new, field.name)
            if was == now or (section.name == "run" and field.name not in ("seed", "dtype")):
                continue
            told = "" if key == "model.layers" else f" {toml_value(was)} -> {toml_value(now)}"
            changes.append(key + told)
    return changes
