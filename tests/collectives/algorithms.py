"""What the tests of algorithms share: all that ship, and ways to break one."""

import pytest

import collectives.algorithms
from collectives.collective import ALLREDUCE
from collectives.registry import REGISTRY, Algorithm

assert collectives.algorithms.__all__

ALL = REGISTRY.all()
every_algorithm = pytest.mark.parametrize(
    "algorithm", ALL, ids=[f"{a.collective.name}-{a.name}" for a in ALL]
)


def named(name, collective=ALLREDUCE):
    return REGISTRY.get(collective, name)


def made(generate, collective=ALLREDUCE, blocks=lambda size: size):
    """An algorithm that is not in the registry."""
    return Algorithm(collective, "made", blocks, generate, "nobody")
