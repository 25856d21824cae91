"""What the report of a drop-in counts: the same, whoever does the calls."""

import time

import numpy as np
import pytest
from mpi4py import MPI

from collectives import as_intracomm
from collectives.collective import COLLECTIVES
from collectives.intracomm.forms import can_take
from collectives.intracomm.length import length
from collectives.intracomm.report import Report, Shape, Way

LIBRARY = Way("library", "")
both = pytest.mark.parametrize("word", ["ours", "library"])


def counted(comm, word):
    report = Report()
    return report, as_intracomm(comm, report=report, **dict.fromkeys(COLLECTIVES, word))


def calls(comm):
    """Return, by method, its arguments, and the bytes of the longer buffer of this rank."""
    size, rank = comm.size, comm.rank
    root = size - 1
    at_root = rank == root
    mine, same = np.ones(3, np.float32), np.zeros(3, np.float32)
    whole, other = np.ones(3 * size), np.zeros(3 * size)
    counts = [r + 1 for r in range(size)]
    total = sum(counts)
    uneven, part = np.ones(total), np.ones(rank + 1)
    to_one = [np.ones(total), counts] if at_root else None
    return {
        "Barrier": ((), 0),
        "Bcast": (([whole, 2, MPI.DOUBLE], root), 16),
        "Allreduce": ((mine, same), 12),
        "Reduce": ((mine, same if at_root else None, MPI.MAX, root), 12),
        "Reduce_scatter_block": ((whole, np.zeros(3)), 24 * size),
        "Reduce_scatter": ((uneven, part.copy(), counts), 8 * total),
        "Allgather": ((mine, np.zeros(3 * size, np.float32)), 12 * size),
        "Allgatherv": ((part, [uneven.copy(), counts]), 8 * total),
        "Alltoall": ((whole, other), 24 * size),
        "Alltoallv": (([whole, [3] * size], [other, [3] * size]), 24 * size),
        "Gather": ((mine, np.zeros(3 * size, np.float32) if at_root else None, root), 12 * size),
        "Gatherv": ((part, to_one, root), 8 * total if at_root else 8 * (rank + 1)),
        "Scatter": ((whole if at_root else None, np.zeros(3), root), 24 * size),
        "Scatterv": ((to_one, part, root), 8 * total if at_root else 8 * (rank + 1)),
    }


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@both
def test_all_forms_are_counted_with_their_bytes(comm, word):
    report, world = counted(comm, word)
    for method, (args, nbytes) in calls(comm).items():
        for form in (method, f"I{method.lower()}", f"{method}_init"):
            call = getattr(world, form)
            if form == method:
                call(*args)
                call(*args)
            elif form.startswith("I"):
                call(*args).Wait()
                request = call(*args)
                while not request.Test():
                    pass
            else:
                request = call(*args)
                for _ in range(2):
                    request.Start()
                    request.Wait()
                request.Free()
            found = [tally for site, tally in report.sites.items() if site.call == form]
            assert sum(tally.calls for tally in found) == 2, form
            assert sum(tally.nbytes for tally in found) == 2 * nbytes, form
            assert sum(tally.first_seconds for tally in found) > 0, form
            name = method.lower().removesuffix("_block").removesuffix("v")
            for tally in found:
                assert set(tally.shapes) == {Shape(name, comm.size, nbytes)}
                assert (LIBRARY in tally.ways) == (word == "library")
                (shape,) = tally.shapes
                taken = {*tally.ways} - {LIBRARY}
                assert all(can_take(form, shape, way) for way in taken), (form, taken)


@pytest.mark.ranks(2, every_mpi=True)
@both
def test_waits_for_a_rank_that_comes_late_are_counted(comm, word):
    report, world = counted(comm, word)
    x, y = np.ones(100), np.zeros(100)
    persistent = world.Allreduce_init(x, y)
    for _ in range(3):
        world.Barrier()
        if comm.rank == 1:
            time.sleep(0.05)
        world.Iallreduce(x, y).Wait()
        assert (y == 2).all()
        world.Barrier()
        if comm.rank == 1:
            time.sleep(0.05)
        persistent.Start()
        persistent.Wait()
    persistent.Free()
    (shape,) = {shape for tally in report.sites.values() for shape in tally.shapes if shape.nbytes}
    found = {site.call: tally for site, tally in report.sites.items()}
    for form in ("Iallreduce", "Allreduce_init"):
        if comm.rank == 0:
            assert found[form].first_seconds > 0.04
            assert found[form].seconds > 0.08
            assert found[form].each(shape) > 0.04


@pytest.mark.ranks(2)
def test_requests_that_are_counted_do_what_those_of_the_library_do(comm):
    report, world = counted(comm, "library")
    x, y, z = np.full(5, comm.rank + 1.0), np.zeros(5), np.zeros(5)
    many = [world.Iallreduce(x, y), world.Iallreduce(x, z)]
    MPI.Request.Waitall(many)
    assert (y == 3).all()
    assert (z == 3).all()
    assert all(request == MPI.REQUEST_NULL for request in many)
    request = world.Ibcast(y, 1)
    assert request.wait() is None
    request = world.Ibarrier()
    while not request.test()[0]:
        pass
    persistent = world.Allreduce_init(x, y)
    assert isinstance(persistent, MPI.Prequest)
    persistent.Wait()  # not started
    x[:] = 1
    MPI.Prequest.Startall([persistent])
    MPI.Request.Waitall([persistent])
    assert (y == 2).all()
    persistent.Free()
    assert persistent == MPI.REQUEST_NULL
    tallies = {site.call: tally for site, tally in report.sites.items()}
    assert tallies["Allreduce_init"].calls == 0  # Startall cannot be seen


@pytest.mark.ranks(2)
def test_without_a_report_requests_are_those_of_the_library(comm):
    world = as_intracomm(comm, check=True, allreduce="library")
    request = world.Iallreduce(np.ones(3), np.zeros(3))
    assert type(request) is MPI.Request
    request.Wait()


@pytest.mark.ranks(1)
def test_lengths_of_other_spellings(comm):
    x = np.ones(6)
    assert length("Iallreduce", 0, 3, (MPI.IN_PLACE, [x, MPI.DOUBLE], MPI.SUM)) == 48
    assert length("Alltoall", 0, 3, (MPI.IN_PLACE, x)) == 48
    assert length("Reduce_scatter_block", 0, 3, (MPI.IN_PLACE, x, MPI.SUM)) == 48
    assert length("Reduce_scatter", 0, 3, (MPI.IN_PLACE, x, [1, 2, 1], MPI.SUM)) == 32
    assert length("Ireduce_scatter", 0, 2, (x, x[:3], None, MPI.SUM)) == 48
    assert length("Scatter_init", 1, 2, (x, MPI.IN_PLACE, 1)) == 48
    pair = MPI.DOUBLE.Create_vector(2, 1, 2).Commit()
    assert length("Bcast", 0, 2, ([x, 2, pair], 0)) == 2 * 2 * 8
    pair.Free()
    assert length("Bcast", 0, 2, ("no buffer", 0)) is None
