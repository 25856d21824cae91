"""The pure parts work where no MPI is installed: importing them loads no mpi4py."""

import subprocess
import sys

import pytest

PURE = [
    "collectives",
    "collectives.step",
    "collectives.collective",
    "collectives.registry",
    "collectives.algorithms",
    "collectives.verify",
    "collectives.interpret",
    "collectives.adjoint",
    "collectives.blocks",
    "collectives.op",
    "collectives.traffic",
    "collectives.messages",
    "collectives.disagreement",
    "collectives.fixed_point",
    "collectives.pattern",
    "collectives.model",
    "collectives.closed_form",
    "collectives.counts",
    "collectives.simulate",
    "collectives.draw",
    "collectives.select",
    "collectives.clock",
    "collectives.explain",
    "collectives.goal",
    "collectives.libraries",
    "collectives.extent",
    "collectives.fit",
    "collectives.noise",
    "collectives.price",
    "collectives.regret",
    "collectives.sides",
    "collectives.table",
    "collectives.table_reader",
    "collectives.table_writer",
    "collectives.timeline",
    "collectives.topology",
    "collectives.__main__",
]


def loaded(statement):
    """The top-level modules that a new process has loaded after a statement."""
    code = f"{statement}; import sys; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", PURE)
def test_no_mpi(module):
    modules = loaded(f"import {module}")
    assert "collectives" in modules
    assert "mpi4py" not in modules


def test_importing_the_package_loads_nothing_heavy():
    assert not {"numpy", "mpi4py", "cupy", "argparse"} & loaded("import collectives")


def test_names_that_need_mpi_are_found_at_first_use():
    modules = loaded("import mpi4py; mpi4py.rc.initialize = False; from collectives import Plan")
    assert "mpi4py" in modules


def test_an_unknown_name():
    import collectives

    with pytest.raises(AttributeError, match="module 'collectives' has no attribute 'allreduc'"):
        _ = collectives.allreduc
