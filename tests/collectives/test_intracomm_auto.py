"""What "auto" means in a drop-in: ours where that is quicker, else the library's own call."""

import numpy as np
import pytest
from mpi4py import MPI

from collectives import as_intracomm
from collectives.collective import COLLECTIVES
from collectives.executors.native import numba_is_there
from collectives.intracomm import quicker
from collectives.intracomm.report import Report, Way

LIBRARY = Way("library", "")
needs_numba = pytest.mark.skipif(not numba_is_there(), reason="numba is not installed")


@pytest.fixture
def from_1k_to_64k(monkeypatch):
    """Ours are quicker for allreduce and reduce of these lengths."""
    vendor = MPI.get_vendor()[0]
    lengths = {(vendor, name): ((1 << 10, 64 << 10),) for name in ("allreduce", "reduce")}
    monkeypatch.setattr(quicker, "QUICKER", lengths)


def spellings(x):
    return x, [x, MPI.DOUBLE], (x, x.size), memoryview(x), [x, x.size, MPI.DOUBLE]


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_every_length_in_every_spelling_is_right(comm, from_1k_to_64k):
    ours = as_intracomm(comm)
    size, rank, root = comm.size, comm.rank, comm.size - 1
    for _ in range(2):
        for n in (0, 127, 128, 8191, 8192):
            want = (np.arange(n) % 7.0) * size + size * (size - 1) / 2
            for k in range(5):
                x, y = np.arange(n) % 7.0 + rank, np.full(n, -1.0)
                i = (k + rank) % 5  # each rank spells it in another way
                ours.Allreduce(spellings(x)[i], spellings(y)[i])
                np.testing.assert_array_equal(y, want)
                y[:] = -1
                ours.Reduce(spellings(x)[i], spellings(y)[i] if rank == root else None, root=root)
                assert (y == (want if rank == root else -1)).all()
                into = spellings(x)[i]
                if rank == root:
                    ours.Reduce(MPI.IN_PLACE, into, MPI.SUM, root)
                else:
                    ours.Reduce(into, None, MPI.SUM, root)
                if rank != root:
                    x = want.copy()
                np.testing.assert_array_equal(x, want)
                z = np.arange(n) % 7.0 + rank
                ours.Allreduce(MPI.IN_PLACE, spellings(z)[i])
                np.testing.assert_array_equal(z, want)


@needs_numba
@pytest.mark.ranks(2, 3, every_mpi=True)
def test_who_does_what(comm, from_1k_to_64k):
    report = Report()
    ours = as_intracomm(comm, report=report)
    total = np.zeros(1 << 14)
    for nbytes in (8, 1016, 1024, 65528, 65536):
        x = np.ones(nbytes // 8)
        ours.Allreduce(x, total[: x.size])
    ours.Allreduce(np.ones(1024, bool), total[:128].view(bool), MPI.LAND)
    ours.Bcast(total)
    x, y = np.ones(500), np.zeros(500)  # mpi4py does not keep both arrays of a request alive
    ours.Iallreduce(x, y).Wait()
    sites = {site.call: tally for site, tally in report.sites.items()}
    (first,) = (t for s, t in report.sites.items() if s.call == "Allreduce" and t.calls == 5)
    assert dict(first.ways) == {LIBRARY: 3, Way("direct", "shared"): 2}
    assert first.nbytes == 8 + 1016 + 1024 + 65528 + 65536
    assert dict(sites["Allreduce"].ways) == {LIBRARY: 1}
    assert dict(sites["Bcast"].ways) == {LIBRARY: 1}
    assert sites["Bcast"].nbytes == total.nbytes
    assert dict(sites["Iallreduce"].ways) == {LIBRARY: 1}


@pytest.mark.ranks(2)
def test_what_is_the_librarys_in_any_case_is_found_at_once(comm):
    ours = as_intracomm(comm, allreduce="ring", reduce="library")
    for name in ("Bcast", "Ibcast", "Bcast_init", "Alltoallv", "Barrier", "Reduce", "Ireduce"):
        assert getattr(ours, name).__func__ is getattr(MPI.Intracomm, name)
    assert "Allreduce" not in vars(ours)
    assert "Iallreduce" not in vars(ours)
    again = as_intracomm(ours, bcast="binomial", allreduce="library")
    assert again is ours
    assert "Bcast" not in vars(ours)
    assert "Allreduce" in vars(ours)
    x = np.full(3, comm.rank)
    ours.Bcast(x, 1)
    assert (x == 1).all()


@pytest.mark.ranks(2)
def test_no_duplicate_is_made_where_nothing_is_ours(comm):
    ours = as_intracomm(comm.Dup())
    ours.Allreduce(np.ones(1), np.zeros(1))
    ours.Ibarrier().Wait()
    assert ours._engine._opened is None
    ours.Free()
    with pytest.raises(MPI.Exception):
        ours.Bcast(np.ones(1))


@pytest.mark.ranks(2, 3)
def test_elements_that_the_library_does_not_know(comm):
    import ml_dtypes

    ours = as_intracomm(comm)
    x = np.full(4, comm.rank + 1, ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    ours.Allreduce(x, y)
    assert (y.astype(float) == comm.size * (comm.size + 1) / 2).all()
    y[:] = 0
    ours.Reduce(x, y)
    assert comm.rank or (y.astype(float) == comm.size * (comm.size + 1) / 2).all()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("how", [{"executor": "python"}, dict.fromkeys(COLLECTIVES, "ours")])
def test_who_names_an_executor_or_ours_has_ours(comm, how):
    report = Report()
    ours = as_intracomm(comm, report=report, **how)
    ours.Bcast(np.ones(1))
    (tally,) = report.sites.values()
    assert LIBRARY not in tally.ways
