"""Gradient compression: codecs, and error feedback for any of them.

Codecs know no MPI. `hpcdl.compression.allreduce` sends what they make over the wire.
"""

from __future__ import annotations

from collections.abc import Callable

from hpcdl.compression.codec import Codec, Payload, State
from hpcdl.compression.error_feedback import ErrorFeedback
from hpcdl.compression.float16 import Float16
from hpcdl.compression.qsgd import QSGD
from hpcdl.compression.topk import TopK

CODECS: dict[str, Callable[..., Codec]] = {"qsgd": QSGD, "topk": TopK, "float16": Float16}
"""The codecs that ship, by name. A new one is a file of this folder and an entry here."""

__all__ = ["CODECS", "QSGD", "Codec", "ErrorFeedback", "Float16", "Payload", "State", "TopK"]
