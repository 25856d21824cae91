"""Times, lengths and models for people to read."""

from __future__ import annotations

from collections import Counter

from collectives.model import Model
from collectives.topology import Topology

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BYTES = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


def time_text(value: float) -> str:
    """Return seconds for people to read: ``12.3 us``."""
    unit = next((unit for unit, least in _SECONDS.items() if value >= least), "ns")
    return f"{value / _SECONDS[unit]:.6g} {unit}"


def bytes_text(value: int) -> str:
    """Return a number of bytes for people to read: ``64 KiB``, or plain where it is not even."""
    for unit, size in _BYTES.items():
        if value and value % size == 0:
            return f"{value // size} {unit}iB"
    return f"{value} B"


def count_text(n: int, what: str) -> str:
    """Return a number of things for people to read: ``1 rank``, ``2 ranks``."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def model_lines(model: Model | Topology, size: int) -> list[str]:
    """Return lines that tell what a model assumes for ``size`` ranks, each with its title first."""
    if isinstance(model, Model):
        return [f"model        {model_text(model)}"]
    return [
        f"inside       {model_text(model.within)}",
        f"between      {model_text(model.between, sums=False)}",
        f"nodes        {_nodes_text(model, size)}",
    ]


def _nodes_text(model: Topology, size: int) -> str:
    """Return how many nodes there are, and of how many ranks: ``7: 6 of 9 ranks, 1 of 6``."""
    node = model.node_of(size).tolist()
    alike = sorted(Counter(Counter(node).values()).items(), reverse=True)
    (ranks, nodes), *rest = alike
    text = f"{nodes} of {count_text(ranks, 'rank')}"
    if rest:
        text = f"{model.nodes(size)}: {text}" + "".join(f", {n} of {r}" for r, n in rest)
    return text + (", in turns" if model.cyclic else "")


def model_text(model: Model, *, sums: bool = True) -> str:
    """Return the parameters of a model with their units and letters; without ``sums`` not c."""
    added = f"sums 1/c {_rate(model.reduce_time)}, " if sums else ""
    return (
        f"latency L {_short(model.latency)}, bandwidth 1/G {_rate(model.byte_time)}, {added}"
        f"overhead o {_short(model.overhead)}, gap g {_short(model.gap)}"
    )


def _short(seconds: float) -> str:
    return time_text(float(f"{seconds:.3g}"))


def _rate(byte_time: float) -> str:
    return f"{1e-9 / byte_time:.3g} GB/s" if byte_time else "unlimited"
