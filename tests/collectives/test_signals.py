"""Signals while a rank runs a collective, and exceptions of their handlers."""

import random
import signal
import time

import numpy as np
import pytest

import collectives
from collectives.fusion import plan_allreduce_many
from tests.collectives.cases import EXECUTORS
from tests.collectives.jobs import PREFIXES, run_job

pytestmark = pytest.mark.skipif("shared" not in EXECUTORS, reason="numba is not installed")

WAYS = [
    {"executor": "shared"},
    {"executor": "shared", "traffic": True},
    {"executor": "shared", "timeout": 60},
    {"executor": "native"},
    {"executor": "python"},
    {"background": True},
    {"deterministic": "ranks"},
    {"fused": True},
]


def make(x, comm, way):
    options = dict(way)
    if options.pop("fused", False):
        return plan_allreduce_many([x, np.ones(5)], comm=comm, **options)
    if "traffic" in options:
        options["traffic"] = collectives.Traffic()
    return collectives.plan_allreduce(x, comm=comm, **options)


def run(plan):
    plan.run()


def start_and_wait(plan):
    plan.start()
    plan.wait()


def start_and_test(plan):
    plan.start()
    while not plan.test():
        time.sleep(0)


@pytest.mark.ranks(2)
def test_a_long_wait_without_a_signal(comm):
    x = np.full(100_000, comm.rank + 1.0)
    traffic = collectives.Traffic()
    with collectives.plan_allreduce(x, comm=comm, executor="shared", traffic=traffic) as plan:
        seconds = 0.0
        for _ in range(2):
            if comm.rank:
                time.sleep(0.4)
            begin = time.perf_counter()
            plan.run()
            seconds += time.perf_counter() - begin
    assert (x == 6).all()
    if comm.rank == 0:  # it has gone in and out of the compiled loop several times
        assert seconds > 0.2
        assert 0.9 * seconds < traffic.seconds <= seconds


@pytest.fixture
def alarms():
    """Return what sets a handler that is called every 0.3 ms."""
    before = signal.getsignal(signal.SIGALRM)

    def ring(handler):
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 3e-4, 3e-4)

    yield ring
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_handlers_that_return_change_nothing(comm, way, alarms):
    x = np.empty(20_000)
    calls = [0]

    def count(*_):
        calls[0] += 1

    own = random.Random(comm.rank)
    with make(x, comm, way) as plan:
        alarms(count)
        for k in range(60):
            x[:] = comm.rank + k
            if own.random() < 0.3:
                time.sleep(own.random() * 2e-3)
            (run, start_and_wait, start_and_test)[k % 3](plan)
            assert (x == 1 + 2 * k).all()
            y = collectives.allreduce(np.full(9, k), comm=comm, executor="auto")
            assert (y == 2 * k).all()
        signal.setitimer(signal.ITIMER_REAL, 0)
    assert calls[0]


EVERYWHERE = """
    import faulthandler, sys, time
    faulthandler.dump_traceback_later(60, exit=True)
    import numpy as np
    from mpi4py import MPI
    import collectives
    from collectives.fusion import plan_allreduce_many

    world = MPI.COMM_WORLD
    OURS = collectives.__path__[0]

    class Alarm(Exception):
        pass

    def make(x, comm, fused=False, **way):
        plan = plan_allreduce_many if fused else collectives.plan_allreduce
        made = plan([x, x[:3].copy()] if fused else x, comm=comm, **way)
        if hasattr(made, "_go"):  # so that an alarm may come right after it, too
            go = made._go
            made._go = lambda address: go(address)
        return made

    def run(plan):
        plan.run()

    def start_and_wait(plan):
        plan.start()
        plan.wait()

    def start_and_test(plan):
        plan.start()
        while not plan.test():
            time.sleep(2e-3)  # so that there are few places

    def alarm_at(place):
        "Raise where Python handles signals, below our functions: as they, and what they call, end."
        left = [place]

        def look(frame, event, _):
            if event == "c_call":
                return
            where = frame if event == "c_return" else frame.f_back
            if where is not None and where.f_code.co_filename.startswith(OURS):
                left[0] -= 1
                if left[0] < 0:
                    raise Alarm(f"{event} in {where.f_code.co_qualname}")

        sys.setprofile(look)

    def bound(plan):
        "The plan that lives on the channel: the one that is watched, where one is."
        return plan if hasattr(plan, "_channel") else plan._plan

    def refused(plan):
        for use in (plan.test, plan.wait, plan.start, plan.run):
            try:
                use()
            except RuntimeError as error:
                assert "can no longer be used: a run " in str(error), error
                assert "was interrupted by Alarm" in str(error), error
            else:
                raise AssertionError(f"{use.__name__} is not refused")

    def other(plan):
        "What rank 1 does: it runs, unless rank 0 says that it cannot."
        plan.start()
        while not plan.test():
            if world.iprobe(0):
                break
        return world.recv(source=0)

    def attempt(use, place):
        "Return how a run ends in which an alarm comes at one place."
        comm = world.Dup()
        x = np.full(20, world.rank + 1.0)
        plan = make(x, comm, **WAY)
        said = "over"
        if world.rank == 0:
            try:
                alarm_at(place)
                use(plan)
                sys.setprofile(None)
            except Alarm:
                sys.setprofile(None)
                said = "broken" if bound(plan)._channel.broken else "whole"
                assert not getattr(plan, "_waits", ())
            if said == "broken":
                refused(plan)
            elif bound(plan)._running:  # `wait` had not begun
                plan.wait()
            elif (x == 1).all():  # nor had `start`
                plan.run()
            world.send(said, 1)
        else:
            said = other(plan)
            if said != "broken":
                plan.wait()  # rank 0 may be through before
        if said != "broken":
            assert (x == 3).all(), (place, said, x)
            plan.close()
        if said != "broken" or not THREAD:  # which would wait for the run of rank 1
            comm.Free()
        return said

    counts = {"broken": 0, "whole": 0}
    for first, use in enumerate((run, start_and_wait, start_and_test)):
        place = first % STEP
        while (said := attempt(use, place)) != "over":
            counts[said] += 1
            place += STEP
    if world.rank == 0:
        open("said", "w").write(f"{counts}")  # output that is not yet passed on is lost at an abort
        assert counts["broken"] > 10
    world.Barrier()
    MPI.COMM_WORLD.Abort(0)  # what is broken is not finalized
"""


@pytest.mark.parametrize("way", [w for w in WAYS if "traffic" not in w], ids=str)
def test_an_exception_anywhere_in_a_run_never_makes_a_result_wrong(tmp_path, pytestconfig, way):
    """Either the communicator is broken, or nothing was done, and the plan may run."""
    script = EVERYWHERE.replace("WAY)", f"{way})")
    script = script.replace("THREAD", str("background" in way))
    # The threads of what is broken go on, and take their time.
    script = script.replace("STEP", "3" if "background" in way else "1")
    done, _ = run_job(tmp_path, pytestconfig, "", 2, script, timeout=90)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text().startswith("{'broken': "), done.stderr


CTRL_C = """
import os, signal, threading, time
import numpy as np
from mpi4py import MPI
import collectives

world, x, said = MPI.COMM_WORLD, np.ones(1000), []
comm = world.Dup()
plan = collectives.plan_allreduce(x, comm=comm, **WAY)
plan.run()
collectives.allreduce(x, comm=comm, executor="shared")
if world.rank == 1:  # never comes
    time.sleep(60)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    HOW
except KeyboardInterrupt:
    said.append("interrupted")


def call():
    collectives.allreduce(x, comm=comm, executor="shared")


for use in (plan.run, plan.start, plan.test, plan.wait, call):
    try:
        use()
    except RuntimeError as error:
        assert "this communicator can no longer be used: a run of allreduce" in str(error), error
        assert "was interrupted by KeyboardInterrupt" in str(error), error
        said.append("refused")
plan.close()
open("said", "w").write(" ".join(said))  # output that is not yet passed on is lost at an abort
world.Abort(7)
"""


@pytest.mark.parametrize("mpi", PREFIXES)
@pytest.mark.parametrize(
    ("way", "how"),
    [
        ({"executor": "shared"}, "plan.run()"),
        ({"executor": "shared"}, "plan.start(); plan.wait()"),
        ({"executor": "shared"}, "collectives.allreduce(x, comm=comm, executor='shared')"),
        ({"background": True}, "plan.run()"),
    ],
    ids=str,
)
def test_ctrl_c_breaks_the_communicator(tmp_path, pytestconfig, mpi, way, how):
    script = CTRL_C.replace("WAY", f"{way}").replace("HOW", how)
    done, seconds = run_job(tmp_path, pytestconfig, mpi, 2, script)
    assert (tmp_path / "said").read_text() == "interrupted" + 5 * " refused", done.stderr
    assert done.returncode != 0
    assert seconds < 40
