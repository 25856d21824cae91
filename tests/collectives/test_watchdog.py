"""A wait without end shows what every rank was doing, and ends the job."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import collectives
from collectives.watchdog import WatchedPlan, watched
from collectives.witness import stacks_here
from tests.collectives.jobs import PREFIXES, run_job

STUCK = """
import sys, time
import numpy as np
from mpi4py import MPI
from collectives import plan_allreduce, witness
from collectives.watchdog import watched
comm = MPI.COMM_WORLD
nodes = {nodes}
if nodes:
    place = witness._place()
    witness._place = lambda: f"{{place}} {{comm.rank % nodes}}"
x = np.ones(100)
plan = plan_allreduce(x, comm=comm, algorithm="recursive_doubling", executor="{executor}")
made = plan
plan = watched(lambda: made, comm, 1.0)
for _ in range(3):
    plan.run()

def busy_elsewhere():
    time.sleep(60)

def holds_the_lock():
    many = np.ones((3000, 3000), dtype=object)
    many @ many

if comm.rank == 1:
    busy_elsewhere()
if comm.rank == 2 and {lock}:
    holds_the_lock()
if comm.rank == 2:
    sys.exit(0)
time.sleep(1)  # rank 2 has the lock by then, also on a busy machine
plan.run()
"""


@pytest.mark.parametrize("mpi", PREFIXES)
@pytest.mark.parametrize(
    ("executor", "nodes", "lock"),
    [("python", 0, True), ("native", 0, True), ("python", 2, True), ("auto", 0, False)],
)
def test_a_wait_without_end(tmp_path, pytestconfig, mpi, executor, nodes, lock):
    if executor == "native":
        pytest.importorskip("numba")
    script = STUCK.format(executor=executor, nodes=nodes, lock=lock)
    done, seconds = run_job(tmp_path, pytestconfig, mpi, 4, script)
    said = done.stderr
    assert done.returncode != 0
    assert seconds < 40  # most of it is the start of the job on a busy machine
    for rank in (0, 3):
        (line,) = (t for t in said.splitlines() if f"[rank {rank} of 4] watchdog: has waited" in t)
        waited = float(line.split("has waited ")[1].split(" s for ")[0])
        assert 1 <= waited < 3
        assert ", of rank" in line
        assert f"[rank {rank} of 4] watchdog:     self._plan.wait()" in said
    if executor == "python":
        # Round by round: rank 0 begins with rank 1, and rank 3 with rank 2.
        for rank, peer in ((0, 1), (3, 2)):
            text = f"[rank {rank} of 4] watchdog: has waited"
            line = next(t for t in said.splitlines() if t.startswith(text))
            assert line.endswith(f"for recursive_doubling (python), of rank {peer}")
    assert "[rank 1 of 4] watchdog: is in no watched wait" in said
    assert "in busy_elsewhere" in said
    assert "time.sleep(60)" in said
    assert "[rank 2 of 4] watchdog: does not answer" in said
    if lock:
        assert "in holds_the_lock" in said
    assert "watchdog: the job is ended: timeout=1 s is over" in said


@pytest.mark.parametrize("mpi", PREFIXES)
def test_waits_that_end_in_time_end_nothing(tmp_path, pytestconfig, mpi):
    done, _ = run_job(
        tmp_path,
        pytestconfig,
        mpi,
        2,
        """
        import time
        import numpy as np
        from mpi4py import MPI
        from collectives import plan_allreduce
        from collectives.watchdog import watched
        comm = MPI.COMM_WORLD
        half = comm.Dup()
        x = np.ones(1000)
        with watched(lambda: plan_allreduce(x, comm=comm), comm, 5.0) as one:
            with watched(lambda: plan_allreduce(x, comm=half), half, 5.0) as other:
                for _ in range(100):
                    one.run()
                    other.run()
                    x[:] = 1
            half.Free()
            time.sleep(1)
            one.run()
        if comm.rank == 0:
            print("ended well")
        MPI.Finalize()
        """,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ended well\n"


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
def test_a_watched_plan_is_a_plan(comm):
    p = comm.size
    traffic = collectives.Traffic()
    inner = collectives.plan_allreduce(np.zeros(1), comm=comm)
    inner.close()
    x = np.ones(1000)
    inner = collectives.plan_allreduce(x, comm=comm, algorithm="ring", traffic=traffic)
    plan = watched(lambda: inner, comm, 30)
    assert isinstance(plan, WatchedPlan)
    assert (plan.messages, plan.bytes_sent) == (inner.messages, inner.bytes_sent)
    assert (plan.algorithm, plan.executor) == ("ring", inner.executor)
    assert plan.waiting_for() == []
    plan.wait()
    assert (x == 1).all()  # nothing was started
    plan.run()
    assert (x == p).all()
    plan.start()
    while not plan.test():
        pass
    assert (x == p**2).all()
    plan.start()
    plan.close()
    plan.close()
    assert (x == p**3).all()
    assert not plan.pack.watchdog.waits
    assert traffic.messages == 3 * inner.messages
    for seconds in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout="):
            collectives.plan_allreduce(x, comm=comm, timeout=seconds)


def test_the_stacks_of_this_process():
    assert "test_the_stacks_of_this_process" not in stacks_here()  # its own thread calls

    import threading

    go, told = threading.Event(), []

    def tell():
        told.append(stacks_here())
        go.set()

    threading.Thread(target=tell, name="teller").start()
    go.wait()
    assert told[0].startswith("thread MainThread:\n")
    assert "test_the_stacks_of_this_process" in told[0]
    assert "thread teller" not in told[0]


def test_a_signal_reads_no_frames_of_threads_that_run(tmp_path):
    script = tmp_path / "asked.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, threading, time
            from collectives.witness import Witness
            witness = Witness(0)
            def deep(n):
                return n and deep(n - 1)
            def busy():
                while True:
                    deep(100)
            def waits():
                os.waitpid(asker, 0)
            threading.Thread(target=busy, daemon=True).start()
            asker = os.fork()
            if asker == 0:
                for _ in range(500):
                    witness.shown.ask()
                    time.sleep(0.001)
                os._exit(0)
            waits()
            print(witness.shown.written().decode(), flush=True)
            os._exit(0)
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "in waits\n" in done.stdout
    assert "in busy" not in done.stdout
    assert "Thread 0x" not in done.stdout  # the heading of each, where all are read
