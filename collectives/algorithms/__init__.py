"""The algorithms that ship, one file each. A new one is a file here and its name below."""

from collectives.algorithms import (
    binomial,
    pairwise,
    rabenseifner,
    recursive_doubling,
    ring,
    tree,
)

__all__ = ["binomial", "pairwise", "rabenseifner", "recursive_doubling", "ring", "tree"]
