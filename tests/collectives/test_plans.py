"""Plans: how they are made, refused, run again and closed."""

import inspect
import math

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives.bind import bind
from collectives.blocks import Split, share
from collectives.collective import ALLREDUCE
from collectives.fusion import allreduce_many
from collectives.registry import REGISTRY
from tests.collectives.cases import EXECUTORS, SCHEDULED

every_executor = pytest.mark.parametrize("executor", [*EXECUTORS, "auto"])


@pytest.mark.ranks(1, 2, 3, 5)
@every_executor
def test_a_plan_runs_many_times_back_to_back_on_its_own_data(comm, executor):
    x = np.empty(1003)
    y = np.empty(777, np.float32)
    p = comm.size
    total = p * (p + 1) / 2
    with (
        collectives.plan_allreduce(x, comm=comm, executor=executor) as first,
        collectives.plan_allreduce(y, comm=comm, algorithm="ring") as second,
    ):
        scratch = first.scratch_bytes
        for k in range(20):
            # Both in flight at once, and no barrier between the runs.
            x[:] = k * (comm.rank + 1)
            y[:] = -k * (comm.rank + 1)
            first.start()
            second.start()
            done = [first.test(), second.test()]
            if not done[1]:
                second.wait()
            if not done[0]:
                first.wait()
            assert (x == k * total).all()
            assert (y == -k * total).all()
        assert first.scratch_bytes == scratch


@pytest.mark.ranks(2, 3, 4, 7)
@pytest.mark.parametrize("executor", SCHEDULED)
def test_the_counters_are_the_closed_forms(comm, executor):
    p, n = comm.size, 840 * comm.size
    x = np.zeros(n)
    core = 1 << (p.bit_length() - 1)
    paired = comm.rank < 2 * (p - core)
    outside, folded = paired and comm.rank % 2 == 1, paired and comm.rank % 2 == 0
    rounds = core.bit_length() - 1
    forms = {
        "ring": (2 * (p - 1), 2 * x.nbytes * (p - 1) // p),
        "recursive_doubling": (
            (1, x.nbytes) if outside else (rounds + folded, (rounds + folded) * x.nbytes)
        ),
        "rabenseifner": (
            (1, x.nbytes)
            if outside
            else (2 * rounds + folded, 2 * x.nbytes * (core - 1) // core + folded * x.nbytes)
        ),
    }
    for algorithm, (messages, nbytes) in forms.items():
        for _ in range(2):  # the second of two calls is made with the plan of the first
            traffic = collectives.Traffic()
            collectives.allreduce(
                x, comm=comm, algorithm=algorithm, executor=executor, traffic=traffic
            )
            assert (traffic.messages, traffic.bytes) == (messages, nbytes), algorithm
            assert traffic.seconds > 0


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("executor", SCHEDULED)
def test_long_messages_are_cut(comm, executor):
    ring = REGISTRY.get(ALLREDUCE, "ring")
    x = np.arange(1000.0) * (comm.rank + 1)
    rounds = ring.generate(comm.rank, comm.size)
    blocks = Split(x, comm.size)
    with bind(rounds, blocks, comm, executor=executor, message_bytes=100) as plan:
        plan.run()
        block = share(1000, 0, comm.size)[1] * 8
        assert plan.messages >= 2 * (comm.size - 1) * (block // 100)
    np.testing.assert_array_equal(x, np.arange(1000.0) * comm.size * (comm.size + 1) / 2)


@pytest.mark.ranks(1, 2)
def test_bad_arguments_are_refused_before_any_communication(comm):
    x = np.zeros(4)
    readonly = np.zeros(4)
    readonly.flags.writeable = False
    wrong = [
        (TypeError, "sendbuf: is a list", lambda: collectives.allreduce([1.0], comm=comm)),
        (TypeError, "complex128", lambda: collectives.allreduce(x.astype(complex), comm=comm)),
        (TypeError, "bool", lambda: collectives.allreduce(x.astype(bool), comm=comm)),
        (TypeError, "byte order", lambda: collectives.allreduce(x.astype(">f8"), comm=comm)),
        (TypeError, "object", lambda: collectives.bcast(x.astype(object), comm=comm)),
        (
            TypeError,
            "float32, sendbuf float64",
            lambda: collectives.allreduce(x, x.astype("f4"), comm=comm),
        ),
        (
            TypeError,
            "op: is MPI.LAND; needs SUM, PROD, MIN or MAX",
            lambda: collectives.allreduce(x, op=MPI.LAND, comm=comm),
        ),
        (TypeError, "op: is a str", lambda: collectives.reduce(x, op="SUM", comm=comm)),
        (
            TypeError,
            "sendbuf: is MPI.IN_PLACE; leave it out",
            lambda: collectives.allreduce(MPI.IN_PLACE, x, comm=comm),
        ),
        (
            TypeError,
            "op: is a second array; plans of reductions are in place",
            lambda: collectives.plan_allreduce(x, np.zeros(4), comm=comm),
        ),
        (
            TypeError,
            "recvbuf: is a second array",
            lambda: collectives.plan_reduce(x, recvbuf=np.zeros(4), comm=comm),
        ),
        (ValueError, "needs 4", lambda: collectives.allreduce(x, np.zeros(5), comm=comm)),
        (ValueError, "overlaps", lambda: collectives.allreduce(x[:2], x[1:3], comm=comm)),
        (ValueError, "ring, ", lambda: collectives.allreduce(x, comm=comm, algorithm="rnig")),
        (ValueError, "root=9", lambda: collectives.bcast(x, 9, comm=comm)),
        (ValueError, "root=-1", lambda: collectives.reduce(x, root=-1, comm=comm)),
        (ValueError, "intracommunicator", lambda: collectives.bcast(x, comm=MPI.COMM_NULL)),
        (TypeError, "comm: is a str", lambda: collectives.bcast(x, comm="world")),
        (ValueError, "executor='nativ'", lambda: collectives.bcast(x, comm=comm, executor="nativ")),
        (TypeError, "table='t.toml'", lambda: collectives.bcast(x, comm=comm, table="t.toml")),
        (TypeError, "timeout='60'", lambda: collectives.bcast(x, comm=comm, timeout="60")),
        (TypeError, "check='no'", lambda: collectives.bcast(x, comm=comm, check="no")),
        (ValueError, "executor=array", lambda: collectives.bcast(x, comm=comm, executor=x)),
        (TypeError, "algorithm=3", lambda: collectives.bcast(x, comm=comm, algorithm=3)),
        (TypeError, "traffic=True", lambda: collectives.bcast(x, comm=comm, traffic=True)),
    ]
    for executor in EXECUTORS:
        how = {"comm": comm, "executor": executor}
        strided = np.zeros(8)[::2]
        wrong += [
            (ValueError, "read-only", lambda how=how: collectives.allreduce(x, readonly, **how)),
            (ValueError, "read-only", lambda how=how: collectives.allreduce(readonly, **how)),
            (
                ValueError,
                "C-contiguous",
                lambda how=how, a=strided: collectives.allreduce(a, **how),
            ),
            (
                ValueError,
                "C-contiguous",
                lambda how=how, a=strided: collectives.plan_bcast(a, **how),
            ),
        ]
    for error, text, call in wrong:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.ranks(1, 2)
@every_executor
def test_the_life_of_a_plan(comm, executor):
    x = np.ones(3)
    plan = collectives.plan_allreduce(x, comm=comm, executor=executor)
    assert repr(plan).endswith(
        f"Plan collective='allreduce', algorithm={plan.algorithm!r}, executor={plan.executor!r}>"
    )
    plan.wait()
    assert plan.test()
    assert (x == 1).all()  # nothing was started
    plan.start()
    while not plan.test():
        pass
    plan.wait()
    assert plan.test()
    assert (x == comm.size).all()
    x[:] = 1
    plan.start()
    with pytest.raises(RuntimeError, match="runs already"):
        plan.start()
    with pytest.raises(RuntimeError, match="runs already"):
        plan.run()
    plan.close()  # finishes what is in flight
    assert (x == comm.size).all()
    plan.close()
    for use in (plan.start, plan.run):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    assert (x == comm.size).all()


NAMES = ("allreduce", "reduce", "bcast", "reduce_scatter", "allgather", "alltoall", "gather")


@pytest.mark.parametrize("name", [*NAMES, "scatter", "barrier"])
def test_a_call_and_its_plan_take_their_arguments_in_one_order(name):
    """A plan has one buffer where it can do with one; all else is the same, in the same order."""
    taken = {
        function: [p.name for p in inspect.signature(function).parameters.values()]
        for function in (getattr(collectives, name), getattr(collectives, f"plan_{name}"))
    }
    (call, plan) = taken.values()
    two = name in ("alltoall", "gather", "scatter")
    assert plan[: 2 * two] == call[: 2 * two]
    buffers = ("buffer", "sendbuf", "recvbuf")
    assert [p for p in plan if p not in buffers] == [p for p in call if p not in buffers]


@pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")
@pytest.mark.ranks(1, 2, 3, 4, 5)
def test_shared_memory_passes_on_as_many_bytes_as_the_messages_of_direct(comm):
    p, r, n = comm.size, comm.rank, 1003
    counts = [3 * q + 1 for q in range(p)]
    whole, part, root = np.zeros(sum(counts)), np.zeros(counts[r]), p - 1
    cases = [
        ("direct", lambda **o: collectives.plan_allreduce(np.zeros(n, np.float32), **o)),
        ("linear", lambda **o: collectives.plan_reduce(np.zeros(n), root=root, **o)),
        ("linear", lambda **o: collectives.plan_bcast(np.zeros(n, np.int16), root, **o)),
        ("direct", lambda **o: collectives.plan_allgather(whole, counts=counts, **o)),
        ("direct", lambda **o: collectives.plan_reduce_scatter(whole, counts=counts, **o)),
        ("direct", lambda **o: collectives.plan_alltoall(np.zeros(p * n), np.zeros(p * n), **o)),
        ("linear", lambda **o: collectives.plan_gather(part, whole, root, counts=counts, **o)),
        ("linear", lambda **o: collectives.plan_scatter(whole, part, root, counts=counts, **o)),
    ]
    for algorithm, make in cases:
        sent, passed = collectives.Traffic(), collectives.Traffic()
        make(comm=comm, algorithm=algorithm, executor="python", traffic=sent).run()
        plan = make(comm=comm, executor="shared", traffic=passed)
        plan.run()
        plan.start()
        plan.wait()
        assert (passed.bytes, passed.messages) == (2 * sent.bytes, 0), algorithm
        assert plan.bytes_sent == sent.bytes


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize(
    ("op", "result"),
    [
        (MPI.SUM, lambda p: p * (p + 1) / 2),
        (MPI.PROD, math.factorial),
        (MPI.MIN, lambda p: 1),
        (MPI.MAX, lambda p: p),
    ],
)
def test_the_operations_of_mpi_are_taken_too(comm, op, result):
    x, mine = np.empty(3 * comm.size), np.full(3 * comm.size, comm.rank + 1.0)
    collectives.allreduce(mine, x, op, comm=comm)
    np.testing.assert_array_equal(x, result(comm.size))
    x[:] = mine
    with collectives.plan_allreduce(x, op, comm=comm, check=True) as plan:
        plan.run()
    np.testing.assert_array_equal(x, result(comm.size))
    collectives.reduce(mine, x, op, comm.size - 1, comm=comm)
    if comm.rank == comm.size - 1:
        np.testing.assert_array_equal(x, result(comm.size))
    part = np.empty(3)
    collectives.reduce_scatter(mine, part, op, comm=comm)
    np.testing.assert_array_equal(part, result(comm.size))
    allreduce_many([mine], op, comm=comm)
    np.testing.assert_array_equal(mine, result(comm.size))


@pytest.mark.ranks(1, 2)
def test_a_sum_of_mpi_may_be_deterministic(comm):
    x = np.ones(3)
    collectives.allreduce(x, op=MPI.SUM, deterministic="ranks", comm=comm)
    assert (x == comm.size).all()
    with pytest.raises(ValueError, match='op=MAX: deterministic="ranks" is for SUM'):
        collectives.allreduce(x, op=MPI.MAX, deterministic="ranks", comm=comm)
