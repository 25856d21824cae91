"""Draw the pictures of `docs/algorithms.md`: every algorithm of the registry, on a few ranks.

python docs/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.draw import draw_svg
from collectives.registry import REGISTRY, Algorithm

FOLDER = Path(__file__).parent / "pictures"

RANKS = {"hierarchical": 6, "double_tree": 6, "torus": 6, "linear": 4, "chain": 4}
MORE = {
    ("allreduce", "ring"): 4,
    ("allreduce", "bidirectional_ring"): 4,
    ("allreduce", "tree"): 7,
    ("allreduce", "rabenseifner"): 8,
    ("allreduce", "swing"): 8,
    ("bcast", "scatter_allgather"): 4,
    ("reduce", "rabenseifner"): 8,
    ("alltoall", "bruck"): 5,
    ("gather", "binomial"): 7,
    ("scatter", "binomial"): 7,
}
DEFAULT = 5
"""Numbers of ranks: few enough to follow an arrow, enough to see what happens."""

SETTINGS: dict[str, dict[str, int | str]] = {
    "chain": {"segments": 3},
    "double_tree": {"segments": 2},
    "hierarchical": {"node": 3},
}
"""Tunables whose defaults would make a picture too wide."""


def pictures() -> dict[str, tuple[Algorithm, int]]:
    """Return what is drawn: by file name, the algorithm and the number of ranks."""
    found = {}
    for a in REGISTRY.all():
        ranks = MORE.get((a.collective.name, a.name), RANKS.get(a.name, DEFAULT))
        found[f"{a.collective.name}-{a.name}.svg"] = a.tuned(**SETTINGS.get(a.name, {})), ranks
    return found


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, (algorithm, ranks) in pictures().items():
        (FOLDER / name).write_text(draw_svg(algorithm, ranks))


if __name__ == "__main__":
    main()
