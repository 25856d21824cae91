"""``python -m collectives run``: programs of mpi4py that know nothing of it."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from collectives.collective import COLLECTIVES
from tests.conftest import LAUNCH

PI = """
    import sys
    import numpy
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    n = numpy.array(int(sys.argv[1]) if comm.rank == 0 else 0, "i")
    comm.Bcast([n, MPI.INT], root=0)
    h = 1.0 / n
    x = h * (numpy.arange(comm.rank, n, comm.size) + 0.5)
    part, pi = numpy.array(h * (4 / (1 + x**2)).sum()), numpy.zeros(1)
    comm.Reduce([part, MPI.DOUBLE], [pi, MPI.DOUBLE], op=MPI.SUM, root=0)
    if comm.rank == 0:
        print(f"{pi[0]:.8f} {comm.size} {__name__} {sys.argv[1:]}")
"""

MATVEC = """
    import numpy as np
    from mpi4py import MPI

    def matvec(comm, A, x):
        m = A.shape[0]
        xg = np.zeros(m * comm.Get_size(), dtype="d")
        comm.Allgather([x, MPI.DOUBLE], [xg, MPI.DOUBLE])
        return np.dot(A, xg)

    comm = MPI.COMM_WORLD
    n, m = 3 * comm.size, 3
    whole = (np.arange(n * n) % 7.0).reshape(n, n)
    y = matvec(comm, whole[comm.rank * m : (comm.rank + 1) * m], np.arange(m) + m * comm.rank * 1.0)
    every = comm.gather(y)
    if comm.rank == 0:
        print("right" if (np.concatenate(every) == whole @ np.arange(n)).all() else "wrong")
"""

FAILS = """
    from mpi4py import MPI

    def helper():
        raise RuntimeError("no good")

    if MPI.COMM_WORLD.rank == 1:
        helper()
    MPI.COMM_WORLD.Barrier()
"""

DIFFER = """
    import numpy
    from mpi4py import MPI

    MPI.COMM_WORLD.Bcast(numpy.zeros(3), root=MPI.COMM_WORLD.rank)
"""

PICKLES = """
    import copy
    import pickle
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    again = pickle.loads(pickle.dumps({"comm": comm}))["comm"]
    assert again is comm is MPI.COMM_WORLD is copy.copy(comm) is copy.deepcopy([comm])[0]
    assert comm.bcast(comm if comm.rank == 0 else None) is comm
    try:
        pickle.dumps(comm.Dup())
    except ValueError:
        print("as plain")
"""

HANGS = """
    import time
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 1:
        time.sleep(60)
    MPI.COMM_WORLD.Barrier()
"""

CONJUGATE_GRADIENTS = """
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size, n = comm.rank, comm.size, 301
    counts = [n // size + (r < n % size) for r in range(size)]
    displs = [sum(counts[:r]) for r in range(size)]
    m, rows = counts[rank], slice(displs[rank], displs[rank] + counts[rank])
    A = 2.5 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    whole = np.sin(np.arange(n)) if rank == 0 else None
    b, every, dots, total = np.empty(m), np.empty(n), np.zeros(2), np.zeros(2)
    comm.Scatterv([whole, counts, displs, MPI.DOUBLE], [b, MPI.DOUBLE], root=0)
    x, r, p, left = np.zeros(m), b.copy(), b.copy(), np.zeros(1)
    products = comm.Allreduce_init(dots, total)
    comm.Allreduce(np.array([r @ r]), left)
    for step in range(80):
        comm.Allgatherv([p, m, MPI.DOUBLE], [every, (counts, displs), MPI.DOUBLE])
        q = A[rows] @ every
        dots[:] = p @ q, r @ q
        products.Start()
        word = np.array([step if rank == 0 else -1], "i")
        request = comm.Ibcast([word, MPI.INT], root=0)
        MPI.Request.Waitall([request, products]) if step % 2 else (products.Wait(), request.Wait())
        assert word[0] == step
        alpha = left[0] / total[0]
        x, r = x + alpha * p, r - alpha * q
        now = np.array(r @ r)
        comm.Allreduce(MPI.IN_PLACE, [now, 1, MPI.DOUBLE])
        p, left[0] = r + now / left[0] * p, now
    products.Free()
    solution = np.empty(n) if rank == 0 else None
    comm.Gatherv(x, [solution, counts] if rank == 0 else None, root=0)
    if rank == 0:
        print(np.abs(solution - np.linalg.solve(A, np.sin(np.arange(n)))).max() < 1e-12)
"""
OURS = [w for name in COLLECTIVES for w in (f"--{name.replace('_', '-')}", "ours")]


@pytest.fixture
def run(tmp_path):
    def run(source, *args, options=(), module=False):
        (tmp_path / "program.py").write_text(textwrap.dedent(source))
        program = ["-m", "program"] if module else ["program.py"]
        command = [sys.executable, "-m", "collectives", "run", *options, *program, *args]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    return run


@pytest.mark.parametrize("options", [(), ("-n", "3"), ("-n", "2", "--reduce", "chain:segments=2")])
def test_pi(run, options):
    done = run(PI, "1000", "--flag", "-n", "7", options=options)
    assert done.returncode == 0, done.stderr
    size = options[1] if options else 1
    assert done.stdout == f"3.14159274 {size} __main__ ['1000', '--flag', '-n', '7']\n"


def test_a_module_and_its_report(run):
    done = run(MATVEC, options=("-n", "2", "--report", "--allgather", "ring"), module=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("right\n")
    assert "program.py:8 Allgather" in done.stdout
    assert "done by ring (" in done.stdout
    found = r"done by ring \(\w+\) x1: first [^\n]*\n +model: .*bruck.*, 2 more \(native\)"
    assert re.search(found, done.stdout)


@pytest.mark.parametrize("how", [[], OURS, ["--executor", "python", "--check"]])
@pytest.mark.parametrize("ranks", ["2", "3"])
def test_a_solver_with_all_forms_of_collectives(run, how, ranks):
    done = run(CONJUGATE_GRADIENTS, options=("-n", ranks, *how))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"


def test_a_rank_that_fails_ends_the_job_with_a_traceback_of_the_program(run):
    done = run(FAILS, options=("-n", "2"))
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("[rank 1 of 2]")]
    assert told[0].endswith("Traceback (most recent call last):")
    assert 'program.py", line 8, in <module>' in told[1]
    assert told[-1].endswith("RuntimeError: no good")


THREAD = """
    import sys, threading, time
    import numpy as np
    from mpi4py import MPI

    def work():
        for step in range(5):
            time.sleep(0.1 * MPI.COMM_WORLD.rank)  # so the first one ends before the others
            x = np.full(10, step)
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, x)
            assert (x == 2 * step).all()
        if sys.argv[1:] and MPI.COMM_WORLD.rank == 1:
            raise RuntimeError("no good")
        if sys.argv[1:]:
            MPI.COMM_WORLD.Recv(x, 1)

    threading.Thread(target=work).start()
    sys.exit(0)
"""


def test_threads_that_outlive_the_main_one_are_counted(run):
    done = run(THREAD, options=("-n", "2", "--report", "--allreduce", "ring"))
    assert done.returncode == 0, done.stderr
    assert re.search(r" 5 +400 +program.py:10 Allreduce\n +done by ring \(\w+\) x5", done.stdout)


def test_one_of_them_that_fails_ends_the_job(run):
    done = run(THREAD, "fail", options=("-n", "2"))
    assert done.returncode != 0
    assert "[rank 1 of 2] RuntimeError: no good" in done.stderr


@pytest.mark.parametrize("to", ["None", "io.StringIO()", "open('/dev/null', 'w')"])
def test_the_report_of_a_program_that_has_put_something_for_standard_output(run, to):
    source = "import io, sys\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nsys.stdout = "
    done = run(source + to, options=("--report",))
    assert (done.returncode, done.stderr) == (0, "")
    assert "program.py:3 Barrier" in done.stdout


def test_no_report_where_the_program_has_closed_standard_output(run):
    done = run("import sys\nsys.stdout.close()", options=("--report",))
    assert done.returncode == 0
    assert done.stderr == "no report: the program has closed standard output\n"


CHANGES = """
    import os
    import numpy as np
    from mpi4py import MPI

    os.mkdir("below")
    os.chdir("below")
    MPI.COMM_WORLD.Allreduce(np.ones(10), np.zeros(10))
    print("ran")
"""


def test_a_report_may_go_to_a_file(run, tmp_path):
    done = run(CHANGES, options=("--all", "--report-file", "report.txt"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert "program.py:8 Allreduce" in (tmp_path / "report.txt").read_text()
    full = run("print('ran')", options=("--report-file", "/dev/full"))
    assert (full.returncode, full.stdout) == (0, "ran\n")
    assert full.stderr == "no report: --report-file /dev/full: No space left on device\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-n", "2", "--report-file", "no/such"), "--report-file .*no/such: No such file or"),
        (("-n", "2", "--report-file", "."), "--report-file .*: Is a directory"),
        (("--report-file", "program.py"), "--report-file .*program.py: is the program"),
        (("--all",), "--all: is for --report, or --report-file FILE"),
    ],
)
def test_a_report_that_cannot_be_written_is_said_before_the_program_runs(run, options, says):
    done = run("print('ran')", options=options)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"python -m collectives run: error: {says}[^\n]*\n", done.stderr)


@pytest.mark.parametrize(
    "then", ["", "sys.stdout = io.StringIO()", "threading.Thread(target=wait).start()"]
)
@pytest.mark.parametrize("to", ["> /dev/full", "| true"])
def test_a_report_that_nobody_takes(tmp_path, to, then):
    source = "import io, sys, threading, time\nwait = lambda: time.sleep(0.5)\n"
    (tmp_path / "program.py").write_text(f"{source}time.sleep(0.2)\n{then}\n")
    command = f"{sys.executable} -m collectives run --report program.py {to}"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    full = "no report: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (0, full if to == "> /dev/full" else "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_ranks_are_started_where_standard_streams_are_closed(tmp_path, closed):
    (tmp_path / "program.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    words = f"{sys.executable} -m collectives run -n 2 --report-file report.txt program.py {closed}"
    done = subprocess.run(
        words, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "program.py:2 Barrier" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_program(run, code):
    done = run("import sys\nsys.exit(int(sys.argv[1]))", str(code), options=("-n", "2"))
    assert done.returncode == code


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--allreduce", "rung"),
            r"--allreduce rung \(did you mean ring\?\): .*ring.*auto, ours, library",
        ),
        (("--executor", "magic"), "--executor magic: there are auto"),
        (("--table", "nowhere.toml"), "nowhere.toml"),
        (("--timeout", "0"), r"--timeout: '0': needs a time above 0, as 60 \(seconds\) or 500ms"),
        (("--timeout", "1e10s"), r"'1e10s': needs .*; the most is 1e\+09 s"),
        (("--timeout", "x"), r"--timeout: 'x': needs a time above 0, as 60 \(seconds\) or 500ms"),
    ],
)
def test_wrong_words_are_one_line(run, options, says):
    done = run(PI, "10", options=options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert re.search(says, done.stderr)


def test_another_number_of_ranks_than_mpiexec_started_is_said_once(tmp_path):
    (tmp_path / "program.py").write_text("print('ran')")
    words = ["-m", "collectives", "run", "-n", "4", "program.py"]
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, "2", sys.executable, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    said = "error: -n 4, but mpiexec or srun started 2; leave -n out"
    assert [said in line for line in done.stderr.splitlines()].count(True) == 1


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("no_such_program.py", "cannot open no_such_program.py: there is no such file"),
        ("x" * 300, "cannot open x{300}: there is no such file"),
        (".", r"cannot run \.: there is no \./__main__\.py"),
    ],
)
def test_a_program_that_is_not_there(run, program, says):
    done = run("", options=(program,))
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(f"python -m collectives run: error: {says}\n", done.stderr)


@pytest.mark.parametrize("options", [("--report",), ("--report-file", "report.txt")])
def test_a_report_of_a_program_with_a_name_in_other_letters(tmp_path, options):
    (tmp_path / "prögram.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    done = subprocess.run(
        [sys.executable, "-m", "collectives", "run", *options, "prögram.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if options == ("--report",):
        assert "pr\\xf6gram.py:2 Barrier" in done.stdout
    else:
        assert "prögram.py:2 Barrier" in (tmp_path / "report.txt").read_text("utf-8")


def test_its_communicator_is_pickled_as_that_of_mpi4py(run):
    for options in ((), ("--allreduce", "ring"), ("--check",)):
        done = run(PICKLES, options=("-n", "2", *options))
        assert (done.returncode, done.stdout.count("as plain")) == (0, 2), done.stderr


def test_calls_are_compared(run):
    done = run(DIFFER, options=("-n", "2", "--check"))
    assert done.returncode != 0
    assert "AgreementError: Bcast: ranks disagree: root: 0 on rank 0; 1 on rank 1" in done.stderr


def test_a_wait_that_lasts_too_long_ends_the_job(run):
    done = run(HANGS, options=("-n", "2", "--timeout", "1"))
    assert done.returncode != 0
    assert re.search(r"rank 0 of 2. watchdog: has waited 1\.\d s for Barrier", done.stderr)
    assert re.search(r"rank 1 of 2. watchdog: +time\.sleep\(60\)", done.stderr)
