"""Non-blocking and persistent collectives of the drop-in: in any order, alone and in lists."""

import gc
import itertools
import sys
import time

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives import as_intracomm
from collectives.collective import COLLECTIVES
from collectives.executors.native import numba_is_there
from collectives.intracomm.report import Report, Way

SIZES = (1, 2, 3, 4)
OURS = dict.fromkeys(COLLECTIVES, "ours")


def expected(size, k):
    return sum(r + k for r in range(size))


@pytest.mark.ranks(*SIZES, every_mpi=True)
@pytest.mark.parametrize("executor", ["python", "auto"])
def test_two_in_flight_are_waited_for_in_another_order_on_each_rank(comm, executor):
    ours = as_intracomm(comm, **{**OURS, "executor": executor})
    for n in (1, 1000, 100_000):
        totals = [np.zeros(n), np.zeros(n), np.zeros(n)]
        parts = [np.full(n, comm.rank + k, "f8") for k in range(3)]
        requests = [ours.Iallreduce(p, t) for p, t in zip(parts, totals, strict=True)]
        root = np.full(7, comm.rank)
        requests.append(ours.Ibcast(root, comm.size - 1))
        order = [0, 1, 2, 3] if comm.rank % 2 else [3, 2, 1, 0]
        for i in order:
            assert requests[i].Wait()
        for k in range(3):
            assert (totals[k] == expected(comm.size, k)).all()
        assert (root == comm.size - 1).all()
        assert not any(requests)  # they are null now, as the library's are


@pytest.mark.ranks(*SIZES, every_mpi=True)
def test_a_blocking_call_between_start_and_wait(comm):
    ours = as_intracomm(comm, **OURS)
    total, again = np.zeros(3), np.zeros(3)
    request = ours.Iallreduce(np.ones(3), total)
    if comm.rank % 2:
        request.Wait()
        ours.Allreduce(np.full(3, 2.0), again)
    else:
        ours.Allreduce(np.full(3, 2.0), again)
        request.Wait()
    assert (total == comm.size).all()
    assert (again == 2 * comm.size).all()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_the_library_waits_for_lists_with_its_own_requests_among_them(comm):
    ours = as_intracomm(comm, **OURS)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for wait in (MPI.Request.Waitall, MPI.Request.waitall, _testall, _waitany):
        total, got = np.zeros(5), np.zeros(1, "i8")
        requests = [
            ours.Irecv(got, left),
            ours.Iallreduce(np.ones(5), total),
            ours.Isend(np.array([comm.rank]), right),
            ours.Ibarrier(),
        ]
        wait(requests)
        assert (total == comm.size).all()
        assert got[0] == left


def _testall(requests):
    while not MPI.Request.Testall(requests):
        pass


def _waitany(requests):
    left = len(requests)
    while left:
        assert 0 <= MPI.Request.Waitany(requests) < len(requests)
        left -= 1


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_it_goes_on_while_a_rank_waits_in_the_library(comm):
    """MPI promises it: rank 0 hears of the end only after the others have seen it."""
    ours = as_intracomm(comm, **OURS)
    total = np.zeros(50_000)
    request = ours.Iallreduce(np.ones(50_000), total)
    if comm.rank == 0:
        for peer in range(1, comm.size):
            comm.recv(source=peer)
        request.Wait()
    else:
        request.Wait()
        comm.send("done", 0)
    assert (total == comm.size).all()


@pytest.mark.ranks(2, every_mpi=True)
def test_it_goes_on_while_a_rank_is_in_a_collective_of_another_communicator(comm):
    one = as_intracomm(comm, **OURS)
    other = one.Dup()
    total = np.zeros(1000)
    request = one.Iallreduce(np.ones(1000), total)
    word = np.array([comm.rank])
    if comm.rank == 0:
        other.Bcast(word, 1)
        request.Wait()
    else:
        request.Wait()
        other.Bcast(word, 1)
    assert word[0] == 1
    assert (total == 2).all()
    other.Free()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_every_non_blocking_and_persistent_form(comm):
    ours = as_intracomm(comm, **OURS)
    size, rank = comm.size, comm.rank
    x = np.arange(2.0 * size) + rank
    root = size - 1
    counts = [2] * size

    def calls(c):
        at_root = rank == root
        yield "allreduce", (x, np.zeros_like(x)), {}
        yield "reduce", (x, np.zeros_like(x) if at_root else None), {"root": root}
        yield "bcast", (x.copy(),), {"root": root}
        yield "allgather", (x[:2], np.zeros_like(x)), {}
        yield "allgatherv", (x[:2], [np.zeros_like(x), counts]), {}
        yield "gather", (x[:2], np.zeros_like(x) if at_root else None), {"root": root}
        yield "gatherv", (x[:2], [np.zeros_like(x), counts] if at_root else None), {"root": root}
        yield "scatter", (x if at_root else None, np.zeros(2)), {"root": root}
        yield "scatterv", ([x, counts] if at_root else None, np.zeros(2)), {"root": root}
        yield "alltoall", (x, np.zeros_like(x)), {}
        yield "alltoallv", ([x, counts], [np.zeros_like(x), counts]), {}
        yield "reduce_scatter_block", (x, np.zeros(2)), {}
        yield "reduce_scatter", (x, np.zeros(2), counts), {}
        yield "barrier", (), {}

    def result(args):
        last = args[-2] if args and args[-1] is counts else args[-1] if args else None
        return last[0] if isinstance(last, list) else last

    wants = []
    for name, args, keywords in calls(comm):
        getattr(comm, name.capitalize())(*args, **keywords)
        wants.append(result(args))
    for form in ("non-blocking", "persistent"):
        for want, (name, args, keywords) in zip(wants, calls(ours), strict=True):
            if form == "non-blocking":
                request = getattr(ours, f"I{name}")(*args, **keywords)
                assert isinstance(request, MPI.Request)
                while not request.test()[0]:
                    pass
            else:
                request = getattr(ours, f"{name.capitalize()}_init")(*args, **keywords)
                assert isinstance(request, MPI.Prequest)
                assert request.Test()  # not started
                for _ in range(2):  # what is in place would be wrong the second time
                    request.Start()
                    request.Wait()
                request.Free()
                assert not request
            np.testing.assert_array_equal(result(args), want, err_msg=f"{form} {name}")


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_the_library_starts_and_waits_for_persistent_ones(comm):
    ours = as_intracomm(comm, **OURS)
    x, total, word = np.zeros(4), np.zeros(4), np.zeros(1, "i8")
    requests = [ours.Allreduce_init(x, total), ours.Bcast_init(word, 0)]
    for k in range(3):
        x[:] = comm.rank + k
        word[0] = k if comm.rank == 0 else -1
        MPI.Prequest.Startall(requests)
        if k == 1:  # a blocking call meets what was started behind its back
            ours.Barrier()
        if k == 2:
            for request in reversed(requests):
                request.Wait()
        else:
            MPI.Request.Waitall(requests)
        assert (total == expected(comm.size, k)).all()
        assert word[0] == k
    for request in requests:
        request.Free()


@pytest.mark.ranks(2, every_mpi=True)
def test_memory_is_released_when_it_is_finished(comm):
    ours = as_intracomm(comm, **OURS)
    part, total = np.ones(10), np.zeros(10)
    before = sys.getrefcount(part), sys.getrefcount(total)
    for request in (ours.Iallreduce(part, total), ours.Iallgather(part[:5], total)):
        request.Wait()
    del request
    gc.collect()
    assert (sys.getrefcount(part), sys.getrefcount(total)) == before


@pytest.mark.ranks(2)
def test_the_thread_that_looks_after_them_is_one_and_ends(comm):
    ours = as_intracomm(comm, **OURS)
    mine = ours._engine.family.progress
    for _ in range(3):
        request = ours.Ibarrier()
        thread = mine._thread  # it ends once there was nothing to do for a while
        request.Wait()
    assert thread is not None
    assert thread.name == "collectives"
    mine.stop()
    assert not thread.is_alive()
    ours.Ibarrier().Wait()  # our own objects need no thread


@pytest.mark.ranks(2)
def test_an_error_on_the_way_is_raised_by_the_wait(comm):
    ours = as_intracomm(comm.Dup(), bcast="binomial", executor="python")
    # What the ranks say differs: the library, too, finds that only when the message has come.
    buf = np.zeros(100 if comm.rank == 0 else 1)
    request = ours.Ibcast(buf, 0)
    if comm.rank == 0:
        request.Wait()
    else:
        with pytest.raises(MPI.Exception):
            request.Wait()
        with pytest.raises(RuntimeError, match="a run of bcast binomial python was interrupted by"):
            ours.Bcast(buf, 0)
    ours.Free()


@pytest.mark.ranks(2, 3, 4, 8, every_mpi=True)
def test_functions_plans_and_requests_of_one_communicator_at_the_same_time(comm):
    """Requests go on in a thread of their own, whatever else the communicator is used for."""
    ours = as_intracomm(comm, **OURS)
    size, rank = comm.size, comm.rank
    turns = np.random.default_rng([rank, 3])
    base = size * (size - 1) / 2
    planned, kept = np.zeros(3000), np.zeros(9)
    persistent = ours.Allreduce_init(MPI.IN_PLACE, kept)
    with collectives.plan_allreduce(planned, comm=ours) as plan:
        for k in range(6):
            n = (1, 100, 9000)[k % 3]
            inputs = [np.full(n, rank + i + k, "f8") for i in range(3)]
            sums = [np.zeros(n) for _ in inputs]
            word, every = np.full(n, rank), np.zeros((size, 5))
            requests = [ours.Iallreduce(x, y) for x, y in zip(inputs, sums, strict=True)]
            requests += [ours.Ibcast(word, k % size), ours.Ibarrier()]
            mine = np.full(5, rank + 0.5)
            requests += [ours.Iallgather(mine, every)]
            kept[:] = rank + k
            MPI.Prequest.Startall([persistent])  # begun by the thread, in the midst of what follows
            planned[:] = rank
            plan.start()
            x = np.full(n, 1.0 + k)
            for executor in ("auto", "python", "shared", "native")[: 4 if numba_is_there() else 2]:
                collectives.allreduce(x, comm=ours if k % 2 else comm, executor=executor)
                x /= size
            collectives.barrier(comm=ours)
            total = np.zeros(n)
            ours.Allreduce(np.full(n, rank, "f8"), total)
            plan.wait()
            if k % 3 == 2:
                MPI.Request.Waitall([*requests, persistent])
            else:
                for i in turns.permutation(len(requests)):
                    if turns.random() < 0.5:
                        requests[i].Wait()
                    while not requests[i].Test():
                        pass
                persistent.Wait()
            for i, y in enumerate(sums):
                assert (y == base + size * (i + k)).all()
            assert (word == k % size).all()
            assert (every == np.arange(size)[:, None] + 0.5).all()
            assert (kept == base + size * k).all()
            assert (planned == base).all()
            assert (total == base).all()
            np.testing.assert_allclose(x, 1.0 + k, rtol=1e-12)
    persistent.Free()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_requests_that_are_freed_or_forgotten_are_finished(comm):
    ours = as_intracomm(comm, **OURS)
    results = [np.zeros(50_000) for _ in range(4)]
    ones = np.ones(50_000)
    ours.Iallreduce(ones, results[0]).Free()
    ours.Iallreduce(ones, results[1])
    made = [ours.Allreduce_init(ones, results[2]), ours.Allreduce_init(ones, results[3])]
    made[0].Start()
    made[0].Free()
    MPI.Prequest.Startall(made[1:])
    made[1].Free()
    for _ in range(3):
        ours.Barrier()
    end = time.monotonic() + 20
    while not all((r == comm.size).all() for r in results):
        assert time.monotonic() < end
        time.sleep(1e-3)
    again = ours.Allreduce_init(ones, results[0])
    for _ in range(3):
        again.Start()
        again.Wait()
    again.Free()
    assert not ours._engine.family.progress._under_way


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
def test_persistent_ones_are_started_and_waited_for_in_any_order_on_each_rank(comm):
    """In shared memory, too, where runs of other plans take turns."""
    report = Report()
    ours = as_intracomm(comm, report=report, **OURS)
    size, rank, base = comm.size, comm.rank, comm.size * (comm.size - 1) / 2
    orders = list(itertools.permutations(range(4)))
    own = np.random.default_rng([rank, 5])
    for n in (1, 20_000):
        sums = [np.zeros(n), np.zeros(n)]
        parts, word, every = np.zeros(n), np.zeros(n), np.zeros((size, n))
        made = [
            ours.Allreduce_init(MPI.IN_PLACE, sums[0]),
            ours.Allreduce_init(parts, sums[1]),
            ours.Bcast_init(word, size - 1),
            ours.Allgather_init(parts, every),
        ]
        got, plain = np.zeros(1), np.full(1, rank + 0.5)
        for k in range(10):
            sums[0][:], parts[:], word[:] = rank + k, rank - k, rank * 10 + k
            started = orders[(7 * rank + k) % 24]
            for i in started:
                made[i].Start()
                if k % 3 == 0:
                    time.sleep(own.random() * 1e-3)
            if k % 5 == 4:
                ring = [
                    comm.Irecv(got, (rank - 1) % size),
                    comm.Isend(plain, (rank + 1) % size),
                ]
                MPI.Request.Waitall([*(made[i] for i in started[2:]), *ring])
                assert got[0] == (rank - 1) % size + 0.5
            for i in orders[(5 * rank + 3 * k) % 24]:
                if k % 2:
                    made[i].Wait()
                while not made[i].Test():
                    pass
            assert (sums[0] == base + size * k).all()
            assert (sums[1] == base - size * k).all()
            assert (word == (size - 1) * 10 + k).all()
            assert (every == np.arange(size)[:, None] - k).all()
        for request in made:
            request.Free()
    if numba_is_there():
        ways = {s.call: set(t.ways) for s, t in report.sites.items()}
        assert set().union(*ways.values()) == {Way("direct", "shared")}


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_a_plan_of_a_function_and_a_request_are_waited_for_in_another_order_on_each_rank(comm):
    ours = as_intracomm(comm, **OURS)
    x, y = np.zeros(30_000), np.zeros(30_000)
    request = ours.Allreduce_init(MPI.IN_PLACE, y)
    executors = ("python", "native", "shared") if numba_is_there() else ("python",)
    for executor in executors:
        with collectives.plan_allreduce(x, comm=comm, executor=executor) as plan:
            for k in range(8):
                x[:], y[:] = comm.rank, 2 * comm.rank
                other = np.zeros(9)
                plan.start()
                request.Start()
                more = ours.Iallreduce(np.ones(9), other)
                waits = [plan.wait, request.Wait, more.Wait]
                turn = (comm.rank + k) % 3
                for wait in waits[turn:] + waits[:turn]:
                    wait()
                assert (x == comm.size * (comm.size - 1) / 2).all()
                assert (y == comm.size * (comm.size - 1)).all()
                assert (other == comm.size).all()
    request.Free()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_what_mpi_does_not_do_with_a_request_is_refused_and_leaves_all_as_it_is(comm):
    """A start of what is active or freed, and a cancel of anything."""
    ours = as_intracomm(comm.Dup(), **OURS)
    ours.Set_errhandler(MPI.ERRORS_RETURN)
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
    for n in (5, 50_000):
        x, y, z = np.full(n, comm.rank + 1.0), np.zeros(n), np.zeros(n)
        kept, gone, once = ours.Allreduce_init(x, y), ours.Barrier_init(), ours.Iallreduce(x, z)
        with pytest.raises(MPI.Exception) as refused:
            once.Cancel()
        assert refused.value.Get_error_class() == MPI.ERR_REQUEST
        kept.Start()
        for wrong in (kept.Start, kept.Cancel, kept.cancel):
            with pytest.raises(MPI.Exception):
                wrong()
        kept.Wait()
        once.Wait()
        gone.Free()
        for wrong in (gone.Start, gone.Cancel):
            with pytest.raises(MPI.Exception):
                wrong()
        assert (y == expected(comm.size, 1)).all()
        assert (z == y).all()
        x += 1
        kept.Start()
        kept.Wait()
        assert (y == expected(comm.size, 2)).all()
        kept.Free()
    ours.Free()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@pytest.mark.parametrize("limit", [{}, {"timeout": 30}], ids=str)
@pytest.mark.parametrize("executor", ["python", "auto"])
def test_they_outlive_their_communicator(comm, executor, limit):
    ours = as_intracomm(comm.Dup(), **{**OURS, **limit, "executor": executor})
    x, sums = np.zeros(30_000), [np.zeros(30_000) for _ in range(3)]
    made = [ours.Allreduce_init(x, y) for y in sums[:2]]
    once = ours.Iallreduce(x, sums[2])
    ours.Free()
    once.Wait()
    for k in range(4):
        x[:] = comm.rank + k
        if k % 2:
            MPI.Prequest.Startall(made)
            MPI.Request.Waitall(made)
        else:
            for request in made:
                request.Start()
            for request in made:
                request.Wait()
        for y in sums[:2]:
            assert (y == expected(comm.size, k)).all()
    for request in made:
        request.Free()


@pytest.mark.ranks(1, 2)
def test_what_the_library_has_started_and_cannot_begin_holds_nothing_up(comm, monkeypatch):
    def fail():
        raise MemoryError("no room")

    ours = as_intracomm(comm.Dup(), **OURS)
    other = as_intracomm(comm, **OURS)
    x, y = np.ones(3), np.zeros(3)
    first, second = ours.Allreduce_init(x, y), ours.Allreduce_init(x, y)
    monkeypatch.setattr(first._running._plan, "start", fail)
    MPI.Prequest.Startall([first])
    MPI.Request.Waitall([first])
    with pytest.raises(MemoryError, match="no room"):
        first._running.raise_error()
    with pytest.raises(RuntimeError, match="was interrupted by MemoryError: no room"):
        second.Start()
    for _ in range(3):  # the thread is still there for others
        request = other.Allreduce_init(x, y)
        MPI.Prequest.Startall([request])
        MPI.Request.Waitall([request])
        assert (y == comm.size).all()
        request.Free()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_a_datatype_may_be_freed_before_they_are_finished(comm):
    ours = as_intracomm(comm, **OURS)
    column = MPI.DOUBLE.Create_vector(5, 1, 2).Commit()
    x, y = np.full(10, comm.rank + 1.0), np.zeros(10)
    once, again = ours.Ibcast([x, 1, column]), ours.Bcast_init([y, 1, column])
    column.Free()
    once.Wait()
    assert (x[::2] == 1).all()
    assert (x[1::2] == comm.rank + 1).all()
    for k in range(3):
        y[:] = np.arange(10) + 10 * k if comm.rank == 0 else -1
        again.Start()
        again.Wait()
        assert (y[::2] == np.arange(0, 10, 2) + 10 * k).all()
        assert comm.rank == 0 or (y[1::2] == -1).all()
    again.Free()
