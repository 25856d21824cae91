"""Train neural networks with nothing but MPI.

`hpcdl.nn` has the layers, `hpcdl.optim` the update rules, `hpcdl.consistency` and
`hpcdl.compression` what the ranks say to each other, `hpcdl.parallel` what splits a network over
them. The names below are what most programs need; each is imported at its first use, so that
``import hpcdl`` starts no MPI.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcdl.batches import ArraySamples, Batches
    from hpcdl.consistency import LocalSGD, Synchronous
    from hpcdl.data import HDF5Dataset
    from hpcdl.grid import ProcessGrid
    from hpcdl.hooks import Metrics, Progress
    from hpcdl.loop import train
    from hpcdl.model import Model
    from hpcdl.optim import SGD

__version__ = "0.1.0"

_HOME = {
    "ArraySamples": "batches",
    "Batches": "batches",
    "HDF5Dataset": "data",
    "LocalSGD": "consistency",
    "Metrics": "hooks",
    "Model": "model",
    "ProcessGrid": "grid",
    "Progress": "hooks",
    "SGD": "optim",
    "Synchronous": "consistency",
    "train": "loop",
}

__all__ = [
    "SGD",
    "ArraySamples",
    "Batches",
    "HDF5Dataset",
    "LocalSGD",
    "Metrics",
    "Model",
    "ProcessGrid",
    "Progress",
    "Synchronous",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hpcdl' has no attribute {name!r}")
    return getattr(importlib.import_module(f"hpcdl.{_HOME[name]}"), name)
