"""Plans that are used after they were closed, or after their communicator was freed."""

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives import as_intracomm, window
from collectives.calls import calls_of
from collectives.fusion import plan_allreduce_many
from tests.collectives.cases import EXECUTORS

WAYS = [{"executor": executor} for executor in (*EXECUTORS, "auto")]
if len(EXECUTORS) > 1:
    WAYS.append({"background": True})

every_way = pytest.mark.parametrize("way", WAYS, ids=str)


def refuses(plan, why):
    for use in (plan.run, plan.start, plan.test, plan.wait):
        with pytest.raises(RuntimeError, match=rf"^\w+: {why}"):
            use()


def freed(plan):
    return rf"the communicator of this plan \({plan.algorithm}, {plan.executor}\) was freed"


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@every_way
def test_a_plan_is_refused_once_its_communicator_was_freed(comm, way):
    own = comm.Dup()
    x = np.ones(5000, np.float32)
    used = collectives.plan_allreduce(x, comm=own, **way)
    idle = collectives.plan_allreduce(x, comm=own, **way)
    used.run()
    own.Free()
    for plan in (used, idle):
        refuses(plan, freed(plan))
        if plan.can_rebind:
            with pytest.raises(RuntimeError, match="rebind: the communicator"):
                plan.rebind(x)
        plan.close()
        refuses(plan, freed(plan))
    assert (x == comm.size).all()


@pytest.mark.ranks(2, every_mpi=True)
@every_way
def test_plans_of_plans_are_refused_too(comm, way):
    own = comm.Dup()
    arrays = [np.ones(7), np.ones(300)]
    many = plan_allreduce_many(arrays, comm=own, **way)
    exact = collectives.plan_allreduce(np.ones(9), deterministic="ranks", comm=own, **way)
    for plan in (many, exact):
        plan.run()
    own.Free()
    for plan in (many, exact):
        refuses(plan, "the communicator of this plan ")
        plan.close()


@pytest.mark.ranks(4, every_mpi=True)
@pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")
def test_a_plan_on_several_nodes_is_refused_too(comm, monkeypatch):
    monkeypatch.setattr(window, "split_by_node", lambda of: of.Split(MPI.COMM_WORLD.rank // 2))
    own = comm.Dup()
    plan = collectives.plan_allreduce(np.ones(1000), comm=own, executor="shared")
    plan.run()
    own.Free()
    refuses(plan, freed(plan))
    plan.close()


@pytest.mark.ranks(2, every_mpi=True)
@every_way
def test_a_watched_plan_is_refused_too(comm, way):
    own = comm.Dup()
    plan = collectives.plan_allreduce(np.ones(10), comm=own, timeout=30, **way)
    plan.run()
    own.Free()
    refuses(plan, freed(plan))
    plan.close()


@pytest.mark.ranks(1, 2, every_mpi=True)
@pytest.mark.parametrize("executor", [*EXECUTORS, "auto"])
def test_kept_plans_and_drop_ins_are_refused_too(comm, executor):
    own = comm.Dup()
    collectives.allreduce(np.ones(3), comm=own, executor=executor)
    kept = list(calls_of(own)._plans.values())
    own.Free()
    for plan in kept:
        refuses(plan, freed(plan))
    with pytest.raises(ValueError, match="comm: "):
        collectives.allreduce(np.ones(3), comm=own, executor=executor)

    ours = as_intracomm(comm.Dup(), allreduce="ours", executor=executor)
    x = np.ones(3)
    again = ours.Allreduce_init(x, np.empty(3))
    for _ in range(2):
        ours.Allreduce(MPI.IN_PLACE, x)
    request = ours.Iallreduce(MPI.IN_PLACE, x)
    ours.Free()
    request.Wait()  # what is under way may be finished, as in MPI
    assert (x == comm.size**3).all()
    for call in (ours.Allreduce, ours.Iallreduce, ours.Allreduce_init):
        with pytest.raises(RuntimeError, match="allreduce: this communicator was freed"):
            call(MPI.IN_PLACE, x)
    again.Free()


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@every_way
def test_what_is_under_way_may_be_finished(comm, way):
    own = comm.Dup()
    x = np.full(50_000, comm.rank + 1.0)
    plan = collectives.plan_allreduce(x, comm=own, **way)
    plan.start()
    own.Free()
    plan.wait()
    assert (x == comm.size * (comm.size + 1) / 2).all()
    refuses(plan, freed(plan))
    plan.close()


@pytest.mark.ranks(2, 3, every_mpi=True)
@every_way
def test_so_may_plans_of_plans_and_what_has_a_window(comm, way):
    own = comm.Dup()
    memory = collectives.empty(own, 10) if "shared" in EXECUTORS else None
    total = comm.size * (comm.size + 1) / 2
    x, y, z = (np.full(n, comm.rank + 1.0) for n in (40_000, 7, 9))
    plans = [
        collectives.plan_allreduce(x, comm=own, **way),
        plan_allreduce_many([y], comm=own, **way),
        collectives.plan_allreduce(z, deterministic="ranks", comm=own, **way),
    ]
    for plan in plans:
        plan.start()
    if comm.rank:  # one frees while another still waits, and after it
        own.Free()
    for plan in plans:
        plan.wait()
    if not comm.rank:
        own.Free()
    for array in (x, y, z):
        assert (array == total).all()
    for plan in plans:
        refuses(plan, "the communicator of this plan |this plan is closed")
        plan.close()
    del memory


@pytest.mark.ranks(4)
@pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")
def test_so_may_a_run_on_several_nodes(comm, monkeypatch):
    monkeypatch.setattr(window, "split_by_node", lambda of: of.Split(MPI.COMM_WORLD.rank // 2))
    own = comm.Dup()
    x = np.full(1000, comm.rank + 1.0)
    plan = collectives.plan_allreduce(x, comm=own, executor="shared")
    plan.start()
    own.Free()
    plan.wait()
    assert (x == 10).all()
    plan.close()


@pytest.mark.ranks(1, 2, every_mpi=True)
@every_way
def test_a_closed_plan_says_so(comm, way):
    plans = [
        collectives.plan_allreduce(np.ones(10), comm=comm, **way),
        plan_allreduce_many([np.ones(3)], comm=comm, **way),
    ]
    for plan in plans:
        assert plan.test()
        plan.wait()
        plan.close()
        plan.close()
        refuses(plan, "this plan is closed")
