"""Consistency: when the ranks' copies of the parameters are brought together, and how."""

from __future__ import annotations

from collections.abc import Callable

from hpcdl.consistency.consistency import Consistency
from hpcdl.consistency.local_sgd import LocalSGD
from hpcdl.consistency.synchronous import Synchronous

CONSISTENCIES: dict[str, Callable[..., Consistency]] = {
    "synchronous": Synchronous,
    "local_sgd": LocalSGD,
}
"""The consistencies that ship, by name. A new one is a file of this folder and an entry here."""

__all__ = ["CONSISTENCIES", "Consistency", "LocalSGD", "Synchronous"]
