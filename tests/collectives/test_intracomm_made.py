"""Communicators made from a drop-in are drop-ins; operations of the user; settings."""

import numpy as np
import pytest
from mpi4py import MPI

from collectives import as_intracomm
from collectives.collective import COLLECTIVES
from collectives.intracomm import Cartcomm, Distgraphcomm, Graphcomm, Intracomm
from collectives.intracomm.report import Report, Way

SIZES = (1, 2, 3, 4, 8)
OURS = dict.fromkeys(COLLECTIVES, "ours")


def works(comm):
    """It is ours, and its collectives are right."""
    assert isinstance(comm, Intracomm)
    assert comm._engine is not None
    total = np.zeros(3)
    comm.Allreduce(np.full(3, 1.0 + comm.rank), total)
    assert (total == comm.size * (comm.size + 1) / 2).all()


@pytest.mark.ranks(*SIZES, every_mpi=True)
def test_what_is_made_from_one_is_one(comm):
    ours = as_intracomm(comm, allreduce="ring")
    works(ours)
    group = ours.Get_group()
    made = [
        ours.Dup(),
        ours.Clone(),
        ours.Split(ours.rank % 2, -ours.rank),
        ours.Split_type(MPI.COMM_TYPE_SHARED),
        ours.Create(group),
        ours.Create_group(group),
    ]
    group.Free()
    for c in made:
        assert type(c) is Intracomm
        assert c._engine.family is ours._engine.family
        works(c)
    nothing = ours.Split(MPI.UNDEFINED if ours.rank else 0)
    assert (nothing == MPI.COMM_NULL) == (ours.rank > 0)
    if nothing != MPI.COMM_NULL:
        made.append(nothing)
    for c in made:
        c.Free()


@pytest.mark.ranks(*SIZES, every_mpi=True)
def test_topologies(comm):
    ours = as_intracomm(comm)
    size, rank = comm.size, comm.rank
    right, left = (rank + 1) % size, (rank - 1) % size
    cart = ours.Create_cart([size, 1], periods=True)
    assert type(cart) is Cartcomm
    assert isinstance(cart, MPI.Cartcomm)
    assert cart.Get_coords(rank) == [rank, 0]
    assert cart.Shift(0, 1) == (left, right)
    row = cart.Sub([True, False])
    assert type(row) is Cartcomm
    graph = ours.Create_graph([r + 1 for r in range(size)], [(r + 1) % size for r in range(size)])
    assert type(graph) is Graphcomm
    assert graph.Get_neighbors(rank) == [right]
    dist = ours.Create_dist_graph_adjacent([left], [right])
    assert type(dist) is Distgraphcomm
    got = np.zeros(1, "i8")
    dist.Neighbor_allgather(np.array([rank]), got)  # the library's
    assert got[0] == left
    for c in (cart, row, graph, dist, twice := cart.Dup()):
        works(c)
    assert type(twice) is Cartcomm
    for c in (twice, row, cart, graph, dist):
        c.Free()


def matrices(inbuf, inout, datatype):
    """Multiply 2 x 2 matrices: it does not commute."""
    a, b = (np.frombuffer(x, "f8").reshape(-1, 2, 2) for x in (inbuf, inout))
    b[...] = a @ b


def larger(inbuf, inout, datatype):
    a, b = (np.frombuffer(x, "i4") for x in (inbuf, inout))
    np.maximum(np.abs(a), np.abs(b), out=b)


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("how", [{"executor": "python"}, OURS, {}])
def test_operations(comm, how):
    ours = as_intracomm(comm, **how)
    size, rank = comm.size, comm.rank
    x = ((np.arange(40) * 7 + rank * 3) % 9 - 4).astype("i4")
    commutes = MPI.Op.Create(larger, commute=True)
    predefined = (MPI.SUM, MPI.PROD, MPI.MIN, MPI.MAX, MPI.LAND, MPI.LOR, MPI.LXOR, MPI.BAND)
    for op in (*predefined, MPI.BOR, MPI.BXOR, commutes):
        want, got = np.zeros_like(x), np.zeros_like(x)
        comm.Allreduce(x, want, op)
        ours.Allreduce(x, got, op)
        np.testing.assert_array_equal(got, want)
        scattered = np.zeros(40 // size if 40 % size == 0 else 0, "i4")
        if scattered.size:
            ours.Reduce_scatter_block(x, scattered, op)
            start = rank * scattered.size
            np.testing.assert_array_equal(scattered, want[start : start + scattered.size])
    commutes.Free()

    for dtype in ("u1", "i2", "u8", "c16", "f4"):
        y = (np.arange(5) % 3 + rank).astype(dtype)
        total = np.zeros_like(y)
        ours.Allreduce(y, total)
        np.testing.assert_array_equal(total, sum((np.arange(5) % 3 + r) for r in range(size)))

    at = np.zeros(2, np.dtype([("value", "f8"), ("rank", "i4")], align=True))
    at["value"], at["rank"] = [(rank + 1) % size, -rank], rank
    best = np.zeros_like(at)
    ours.Allreduce([at, 2, MPI.DOUBLE_INT], [best, 2, MPI.DOUBLE_INT], MPI.MAXLOC)
    assert best["value"].tolist() == [size - 1, 0]
    assert best["rank"].tolist() == [(size - 2) % size, 0]


@pytest.mark.ranks(*SIZES, every_mpi=True)
def test_an_operation_that_does_not_commute_keeps_the_order_of_ranks(comm):
    ours = as_intracomm(comm, allreduce="ring", reduce="binomial")
    op = MPI.Op.Create(matrices, commute=False)
    mine = np.array([[1.0, comm.rank], [1.0, 2.0]])
    every = np.array([np.array([[1.0, r], [1.0, 2.0]]) for r in range(comm.size)])
    want = np.linalg.multi_dot(every) if comm.size > 1 else every[0]
    got = np.zeros((2, 2))
    matrix = MPI.DOUBLE.Create_contiguous(4).Commit()
    ours.Allreduce([mine, 1, matrix], [got, 1, matrix], op)
    np.testing.assert_array_equal(got, want)
    root = comm.size - 1
    got[:] = 0
    ours.Reduce([mine, 1, matrix], [got, 1, matrix] if comm.rank == root else None, op, root)
    if comm.rank == root:
        np.testing.assert_array_equal(got, want)
    ours.Iallreduce([mine, 1, matrix], [got, 1, matrix], op).Wait()
    np.testing.assert_array_equal(got, want)
    matrix.Free()
    op.Free()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_calls_that_were_made_before_are_right_on_other_arrays(comm):
    """Ranks take different ways to one plan: bare arrays, types, in place, other layouts."""
    ours = as_intracomm(comm, allreduce="ours")
    size, rank = comm.size, comm.rank
    for k in range(6):
        for op, fold in ((MPI.SUM, np.sum), (MPI.MAX, np.max)):
            for n in (1, 7, 300):
                x = np.arange(n) % 5 + 1.0 + rank + k
                want = fold([np.arange(n) % 5 + 1.0 + r + k for r in range(size)], axis=0)
                got = np.full(n, -1.0)
                way = (rank + k) % 4
                if way == 0:
                    ours.Allreduce(x, got, op)
                elif way == 1:
                    ours.Allreduce([x, MPI.DOUBLE], [got, n, MPI.DOUBLE], op)
                elif way == 2:
                    got[:] = x
                    ours.Allreduce(MPI.IN_PLACE, got, op)
                else:
                    ours.Allreduce(x.reshape(n, 1), got.reshape(1, n), op)
                np.testing.assert_array_equal(got, want)
    fixed = np.zeros(7)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ours.Allreduce(np.ones(7), fixed)


@pytest.mark.ranks(2, 3)
def test_the_settings_rule_and_the_report_tells(comm):
    report = Report()
    ours = as_intracomm(comm, allreduce="ring", bcast="library", executor="python", report=report)
    x, total = np.ones(6), np.zeros(6)
    for _ in range(3):
        ours.Allreduce(x, total)
    ours.Bcast(x)
    ours.Iallreduce(x, total).Wait()
    tallies = {site.call: tally for site, tally in report.sites.items()}
    assert set(tallies) == {"Allreduce", "Bcast", "Iallreduce"}
    assert all(site.file == __file__ for site in report.sites)
    assert tallies["Allreduce"].calls == 3
    assert tallies["Allreduce"].nbytes == 3 * 48
    assert tallies["Allreduce"].first_seconds > 0
    assert dict(tallies["Allreduce"].ways) == {Way("ring", "python"): 3}
    assert dict(tallies["Bcast"].ways) == {Way("library", ""): 1}
    everywhere = report.gather(comm)
    assert (everywhere is None) == (comm.rank > 0)
    if everywhere is not None:
        assert {site: tally.calls for site, tally in everywhere.items()} == {
            site: tally.calls for site, tally in report.sites.items()
        }


@pytest.mark.ranks(1)
def test_settings_that_are_not_there(comm):
    with pytest.raises(ValueError, match=r"allreduce='rung'.*ring.*library"):
        as_intracomm(comm, allreduce="rung")
    with pytest.raises(ValueError, match="intracommunicator"):
        as_intracomm(MPI.COMM_NULL)
    with pytest.raises(TypeError, match="communicator"):
        as_intracomm("world")
    for wrong, says, options in (
        (ValueError, "executor='gpu': is one of auto, python", {"executor": "gpu"}),
        (TypeError, "table='t.toml': needs a collectives.Table", {"table": "t.toml"}),
        (TypeError, "timeout='60': needs a number", {"timeout": "60"}),
        (TypeError, "check='yes': needs True or False", {"check": "yes"}),
        (TypeError, "reduce=None: needs a name", {"reduce": None}),
    ):
        with pytest.raises(wrong, match=says):
            as_intracomm(comm, **options)
