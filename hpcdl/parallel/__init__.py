"""Decompositions: each takes a layer and returns a layer that shares the work among ranks."""

from hpcdl.parallel.spatial import Spatial, spatial
from hpcdl.parallel.sumover import Chain, SumOver

__all__ = ["Chain", "Spatial", "SumOver", "spatial"]
