"""What MPI libraries differ in, and the cores that ranks may run on."""

import os

import pytest

from collectives.collective import ALLREDUCE, BCAST
from collectives.cores import allowed_cores, has_own_cores
from collectives.explain import explain
from collectives.libraries import BETWEEN, INSIDE, LONG, cut
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.table import Section, Table, Way, breakpoints_of
from collectives.topology import Topology

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("nbytes", "size", "library", "more", "ring"),
    [
        # Parts of 512 KiB in messages of 128; of 128 KiB, which are one message.
        (MIB, 2, "Intel MPI", {}, 4),
        (MIB, 8, "Intel MPI", {}, None),
        (MIB - 4, 2, "Intel MPI", {}, 2),
        (16 * MIB, 2, "Intel MPI", {}, 32),  # no more
        (LONG, 2, "Intel MPI", {}, None),
        (16 * MIB, 2, "Intel MPI", {"network": True}, None),
        (16 * MIB, 2, "MPICH", {}, None),
        (64 * MIB, 2, "MPICH", {}, 8),
        (64 * MIB, 2, "Open MPI", {}, 8),
        (64 * MIB, 4, "MPICH", {"own_cores": False}, 4),
        (16 * MIB, 4, "MPICH", {"network": True}, 8),
        (16 * MIB, 4, "Open MPI", {"network": True}, 64),
        (16 * MIB, 4, "Intel MPI", {"own_cores": False}, None),
        (16 * MIB, 4, "Open MPI", {"network": True, "own_cores": False}, None),
        (0, 2, "MPICH", {"network": True}, None),
        (64 * MIB, 2, "an MPI that nobody has measured", {}, None),
    ],
)
def test_a_long_allreduce_is_cut_as_the_library_wants_it(nbytes, size, library, more, ring):
    assert cut(nbytes, size, library, **more) == (ring and f"ring:segments={ring}")


def test_what_is_cut_is_an_algorithm():
    for library in {*INSIDE, *BETWEEN}:
        for network in (False, True):
            spec = cut(16 * MIB, 3, library, network=network)
            assert spec is None or REGISTRY.get(ALLREDUCE, spec).name == "ring"


def test_explain_tells_what_is_cut_on_which_library():
    said = explain(ALLREDUCE, 2, MIB, executors=("shared", "native")).why
    assert "With messages on Intel MPI: ring:segments=4." in said
    said = explain(ALLREDUCE, 2, 64 * MIB, executors=("shared", "native")).why
    assert "On MPICH auto takes ring:segments=8." in said
    assert "On Intel MPI auto takes" not in said
    assert "With messages on Intel" not in explain(ALLREDUCE, 2, 8, executors=("native",)).why


def test_explain_tells_what_is_taken_on_several_nodes():
    few, many = (Topology(n, Model(), Model(latency=5e-6)) for n in (1, 4))
    said = explain(ALLREDUCE, 16, 64 * MIB, model=many).why
    # Each of the 4 nodes sums 64 MiB in 4 parts of 16, and the parts of a ring are 4 MiB.
    assert "auto takes shared memory inside each, and between them" in said
    assert "on MPICH ring:segments=8, on Open MPI ring:segments=64" in said
    for model, collective in ((few, ALLREDUCE), (many, BCAST), (None, ALLREDUCE)):
        assert "inside each" not in explain(collective, 16, 64 * MIB, model=model).why


def test_explain_tells_at_which_lengths_was_measured():
    times = {Way("ring", "native"): (1e-6, 2e-6)}
    sizes = (4 * KIB, MIB)
    section = Section("allreduce", 2, "private", 4, sizes, times, breakpoints_of(sizes, times))
    table = Table("a machine", "MPICH 5.0.2", "2026-01-01", {}, (section,))

    def why(nbytes):
        return explain(ALLREDUCE, 2, nbytes, table=table).why

    assert "on 2026-01-01, 2.00 us here." in why(MIB)
    assert "1.41 us here, as far as its times at 4 KiB and 1 MiB tell." in why(64 * KIB)
    assert "2.00 us at 1 MiB." in why(2 * MIB)
    assert "the table has no such case, or none near this length" in why(4 * MIB)


def test_the_cores_of_this_process():
    assert allowed_cores() == sorted(os.sched_getaffinity(0))


@pytest.mark.ranks(1, 2, 3)
def test_ranks_bound_to_one_core_have_none_of_their_own(comm):
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert has_own_cores(comm) == (comm.size == 1)
        os.sched_setaffinity(0, before)
        comm.Barrier()
        assert has_own_cores(comm) == (comm.size <= len(before))
    finally:
        os.sched_setaffinity(0, before)
