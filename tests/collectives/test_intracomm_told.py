"""Calls of the drop-in that are compared on all ranks, or end after a time."""

import time

import numpy as np
import pytest
from mpi4py import MPI

from collectives import AgreementError, as_intracomm
from collectives.collective import COLLECTIVES
from collectives.intracomm import LIBRARY
from collectives.table import Table
from collectives.watchdog import pack_of
from tests.collectives.jobs import PREFIXES, run_job

OURS = dict.fromkeys(COLLECTIVES, "ours")
both = pytest.mark.parametrize("how", [OURS, {}])


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@both
def test_calls_that_agree_are_done(comm, how):
    ours = as_intracomm(comm, check=True, timeout=30, **how)
    size, rank = comm.size, comm.rank
    x, y = np.full(4, 1.0 + rank), np.zeros(4)
    many, parts = np.zeros(4 * size), np.arange(4.0 * size)
    total = size * (size + 1) / 2
    ours.Barrier()
    ours.Allreduce(x, y)
    assert (y == total).all()
    ours.Allreduce(x.astype(int) % 2, odd := np.zeros(4, int), MPI.LOR)
    assert (odd == 1).all()
    ours.Reduce(x, y if rank == 0 else None)
    assert rank or (y == total).all()
    if rank == size - 1:
        ours.Gather(MPI.IN_PLACE, many, size - 1)
    else:
        ours.Gather(x, None, size - 1)
    ours.Gatherv(x[: rank + 1], [many, [r + 1 for r in range(size)]] if rank == 0 else None)
    assert rank or (many[: size * (size + 1) // 2] == np.repeat(*[np.arange(size) + 1] * 2)).all()
    ours.Scatter(parts if rank == 0 else None, y)
    assert (y == np.arange(4) + 4 * rank).all()
    ours.Scatterv([parts, [r + 1 for r in range(size)]] if rank == 0 else None, y[: rank + 1])
    ours.Allgather(x, many)
    assert (many == np.repeat(np.arange(size) + 1, 4)).all()
    ours.Allgatherv(x[: rank + 1], [many, [r + 1 for r in range(size)]])
    ours.Alltoall(parts, many)
    assert (many[:4] == np.arange(4) + 4 * rank).all()
    ours.Alltoallv([parts, [4] * size], [many, [4] * size])
    ours.Reduce_scatter_block(parts, y)
    assert (y == size * (np.arange(4) + 4 * rank)).all()
    ours.Reduce_scatter(parts, y, [4] * size)
    # A word of one rank may have another type on the others.
    ours.Bcast(np.array([258], "u2") if rank == 0 else bytearray(2))
    made = ours.Split(0)
    request = made.Allreduce_init(x, y)
    request.Start()
    request.Wait()
    request.Free()
    made.Iallreduce(x, y).Wait()
    assert (y == total).all()
    made.Free()


@pytest.mark.ranks(2, 3, every_mpi=True)
@both
def test_calls_that_differ_are_refused_on_all_ranks(comm, how):
    ours = as_intracomm(comm, check=True, **how)
    odd = comm.rank == 1
    x, y, many = np.ones(4), np.zeros(4), np.zeros(4 * comm.size)
    what = "Allgather" if odd else "Allreduce"
    short = x[:3] if odd else x
    whole = np.ones(4, int), np.zeros(4, int)
    differ = [
        ("Allreduce: .*: bytes: 32 .*; 24 on rank 1", ours.Allreduce, short, y[: short.size]),
        ("Allreduce: .*op: SUM .*; MAX", ours.Allreduce, x, y, MPI.MAX if odd else MPI.SUM),
        ("Allreduce: .*op: MPI.LAND .*; .*LOR", ours.Allreduce, *whole, (MPI.LAND, MPI.LOR)[odd]),
        ("Bcast: .*root: 0 .*; 1 on rank 1", ours.Bcast, x, int(odd)),
        ("Bcast: rank 1 refuses the call: BufferError", ours.Bcast, np.ones(8)[::2] if odd else x),
        ("collective: Allreduce .*; Allgather", getattr(ours, what), x, many if odd else y),
        ("Allgather: .*bytes of each rank", ours.Allgather, short, many[: comm.size * short.size]),
        (
            r"collective: Allreduce .*; Reduce_scatter on rank 1",
            *((ours.Reduce_scatter, many, y) if odd else (ours.Allreduce, x, y)),
        ),
        ("Bcast_init: .*bytes: 32 .*; 24", ours.Bcast_init, short),
    ]
    for says, call, *args in differ:
        wrong = BufferError if odd and "refuses" in says else AgreementError
        with pytest.raises(wrong, match=None if wrong is BufferError else says):
            call(*args)
    call, args = (ours.Barrier, ()) if odd else (ours.Allreduce, (x, y))
    with pytest.raises(AgreementError, match=r"collective: Allreduce .*; Barrier on rank 1"):
        call(*args)
    ours.Allreduce(x, y)
    assert (y == comm.size).all()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_calls_of_the_library_are_compared_too(comm):
    ours = as_intracomm(comm, check=True, allreduce=LIBRARY, bcast=LIBRARY, allgather=LIBRARY)
    short = np.ones(3 if comm.rank == 1 else 4)
    for says, call, *args in (
        ("Allreduce: .*: bytes: 32 .*; 24 on rank 1", ours.Allreduce, MPI.IN_PLACE, short),
        ("Bcast: .*root: 0 .*; 1 on rank 1", ours.Bcast, np.ones(4), int(comm.rank == 1)),
        ("Allreduce_init: .*: bytes: 32 .*; 24", ours.Allreduce_init, short, short.copy()),
        ("Reduce_init: .*: bytes: 32 .*; 24", ours.Reduce_init, short, short.copy()),
    ):
        with pytest.raises(AgreementError, match=says):
            call(*args)
    x, y = np.full(4, comm.rank), np.zeros(4 * comm.size, int)
    ours.Allgather(x, y)
    assert (y == np.repeat(np.arange(comm.size), 4)).all()


@pytest.mark.ranks(2, every_mpi=True)
def test_a_drop_in_that_not_all_ranks_check_is_refused(comm):
    with pytest.raises(AgreementError, match=r"as_intracomm: .*timeout: .*None"):
        as_intracomm(comm, check=True, timeout=60 if comm.rank else None)
    own = comm.Dup()  # not freed: the ranks are not together on it any more
    begin = time.perf_counter()
    if comm.rank == 0:
        with pytest.raises(AgreementError, match="as_intracomm: not all ranks came within 10 s"):
            as_intracomm(own, check=True)
        assert 9 < time.perf_counter() - begin < 20
    comm.Barrier()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_settings_that_differ_are_refused_on_all_ranks(comm):
    odd = comm.rank == 1
    tables = [Table("machine", "MPI", date, {}, ()) for date in ("2026-01-01", "2026-01-02")]
    x = np.ones(1 << 20)
    for says, settings in (
        (r"table: one, \w+ on rank.*; one, \w+ on rank 1", {"table": tables[odd]}),
        (r"table: None on rank.*; one, \w+ on rank 1", {"table": tables[0] if odd else None}),
        ("executor: auto on rank.*; python on rank 1", {"executor": "python" if odd else "auto"}),
        ("algorithm: auto on rank.*; ring on rank 1", {"allreduce": "ring" if odd else "auto"}),
    ):
        ours = as_intracomm(comm, check=True, **settings)
        with pytest.raises(AgreementError, match=says):
            ours.Allreduce(MPI.IN_PLACE, x)
    # One length is the library's, the other may be ours, which is found out by all ranks.
    ours, some = as_intracomm(comm, check=True), x[: 1 if odd else x.size]
    with pytest.raises(AgreementError, match=r"bytes: 8388608 on rank.*; 8 on rank 1"):
        ours.Allreduce(MPI.IN_PLACE, some)


HANGS = """
    import sys, time
    import numpy as np
    from mpi4py import MPI
    from collectives import as_intracomm
    from collectives.collective import COLLECTIVES

    comm = as_intracomm(MPI.COMM_WORLD, timeout=2, **dict.fromkeys(COLLECTIVES, {word!r}))
    x, y = np.ones(9), np.ones(9)
    comm.Allreduce(x, y)
    if comm.rank == 1:
        time.sleep(60)
    {call}
"""


@pytest.mark.parametrize("mpi", PREFIXES)
@pytest.mark.parametrize("word", ["ours", "auto"])
def test_a_rank_that_never_comes_ends_the_job_with_the_stacks_of_all(tmp_path, request, mpi, word):
    script = HANGS.format(word=word, call="comm.Allreduce(x, y)")
    done, seconds = run_job(tmp_path, request.config, mpi, 2, script)
    assert done.returncode != 0
    assert seconds < 20
    assert "[rank 0 of 2] watchdog: has waited 2" in done.stderr
    assert "for Allreduce" in done.stderr
    assert 'script.py", line 13' in done.stderr
    assert "time.sleep(60)" in done.stderr
    assert "timeout=2 s is over" in done.stderr


def test_so_does_a_request_of_ours(tmp_path, request):
    script = HANGS.format(word="ours", call="comm.Iallreduce(x, y).Wait()")
    done, seconds = run_job(tmp_path, request.config, "", 2, script)
    assert done.returncode != 0
    assert seconds < 20
    assert "for Iallreduce" in done.stderr
    assert "time.sleep(60)" in done.stderr


@pytest.mark.ranks(2)
def test_a_limit_that_is_not_reached_costs_nothing(comm):
    ours = as_intracomm(comm, timeout=20, **OURS)
    x, y = np.ones(9), np.zeros(9)
    ours.Allreduce(x, y)
    begin = time.perf_counter()
    for _ in range(50):
        ours.Allreduce(x, y)
    assert time.perf_counter() - begin < 10
    assert not pack_of(comm).watchdog.waits


@pytest.mark.ranks(1)
def test_a_limit_that_is_none(comm):
    with pytest.raises(ValueError, match="timeout=0: needs a number of seconds above 0"):
        as_intracomm(comm, timeout=0)
