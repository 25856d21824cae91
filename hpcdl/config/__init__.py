"""The configuration of a training run: typed, strict, from one TOML file.

``load`` reads a file or a shipped configuration and refuses whatever is unknown or impossible,
with file, line, key, value and what is allowed; ``to_toml`` writes the record of a run, and
``example`` a commented file to start from. ``layers`` has a dataclass for each type of layer.
"""

from hpcdl.config import layers
from hpcdl.config.changes import changed_settings
from hpcdl.config.error import ConfigError
from hpcdl.config.load import load, names, parse
from hpcdl.config.schema import (
    Checkpoint,
    Compression,
    Config,
    Consistency,
    Data,
    Grid,
    Model,
    Optimizer,
    Run,
    Schedule,
    Train,
)
from hpcdl.config.write import example, to_toml

__all__ = [
    "Checkpoint",
    "Compression",
    "Config",
    "ConfigError",
    "Consistency",
    "Data",
    "Grid",
    "Model",
    "Optimizer",
    "Run",
    "Schedule",
    "Train",
    "changed_settings",
    "example",
    "layers",
    "load",
    "names",
    "parse",
    "to_toml",
]
