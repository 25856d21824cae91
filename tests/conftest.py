"""Tests that run inside mpiexec, as ordinary pytest functions.

    @pytest.mark.ranks(1, 2, 4)
    def test_sum(comm): ...

The outer pytest starts one mpiexec for all selected tests of a module at one number of ranks; each
rank runs pytest on them and writes down how they ended. A test passes where it passed on all
ranks. A rank that fails ends its job, one that hangs is ended by faulthandler, which shows the
stacks of all ranks; the tests that had not had their turn are then started anew.
"""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pytest

LAUNCH = """
import sys
from collectives.launch import replace_by_mpiexec

replace_by_mpiexec(int(sys.argv[1]), sys.argv[2:])
"""
WARM_UP = """
import importlib.util

if importlib.util.find_spec("numba"):
    from collectives.executors import program, together
    from collectives.executors.kernels import kernels_of

    for name in ("float32", "float64", "int32", "int64", "float16", "bfloat16"):
        kernels_of(name)
"""
"""What is compiled once is not compiled by all ranks of a job at the same time."""

TEST_SECONDS = 60
"""How long one test may take inside mpiexec before it counts as hanging."""


def pytest_addoption(parser):
    group = parser.getgroup("mpi", "tests that run inside mpiexec")
    group.addoption(
        "--mpi",
        action="append",
        default=[],
        metavar="NAME=PREFIX",
        help="run the tests marked every_mpi also on the MPI installed in PREFIX",
    )
    group.addoption("--ranks-results", metavar="DIR", help="(internal) this is a rank of a job")


def pytest_configure(config):
    directory = config.getoption("--ranks-results")
    config.inside = Inside(Path(directory)) if directory else None
    if config.inside is None:
        import mpi4py

        mpi4py.rc.initialize = False  # this process only launches others
    config.mpis = dict(m.split("=", 1) for m in config.getoption("--mpi"))
    config.outside = Outside(config.rootpath, config.mpis)


def pytest_generate_tests(metafunc):
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is None:
        return
    if "comm" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: a test with ranks takes `comm`")
    mpis = ["", *metafunc.config.mpis] if marker.kwargs.get("every_mpi") else [""]
    cases = [(n, mpi) for mpi in mpis for n in marker.args]
    ids = [f"{n}-{mpi}" if mpi else str(n) for n, mpi in cases]
    metafunc.parametrize("comm", cases, ids=ids, indirect=True, scope="function")


@pytest.fixture
def comm(request):
    """The communicator: a duplicate of COMM_WORLD inside mpiexec, None outside."""
    if request.config.inside is None:
        yield None
        return
    from mpi4py import MPI

    ranks, _ = request.param
    assert MPI.COMM_WORLD.size == ranks, f"{MPI.COMM_WORLD.size} ranks where {ranks} were asked for"
    duplicate = MPI.COMM_WORLD.Dup()
    yield duplicate
    duplicate.Free()


@pytest.fixture
def shared_tmp_path(request, comm):
    """A directory that is the same on all ranks of a test."""
    inside = request.config.inside
    if inside is None:
        return None
    path = inside.directory / "tmp" / str(abs(hash(request.node.nodeid)) % 10**8)
    path = Path(comm.bcast(str(path)))
    path.mkdir(parents=True, exist_ok=True)
    return path


def _ranks_of(item):
    callspec = getattr(item, "callspec", None)
    if item.get_closest_marker("ranks") is None or callspec is None:
        return None
    return callspec.params["comm"]


def pytest_collection_modifyitems(session, config, items):
    config.outside.items = [i for i in items if _ranks_of(i) is not None]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if _ranks_of(pyfuncitem) is None or pyfuncitem.config.inside is not None:
        return None
    outcome, text = pyfuncitem.config.outside.result(pyfuncitem)
    if outcome == "skipped":
        pytest.skip(text)
    if outcome != "passed":
        pytest.fail(text, pytrace=False)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    inside = item.config.inside
    if inside is not None:
        inside.begin(item.nodeid)
    result = yield
    if inside is not None:
        inside.end(item.nodeid)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if item.config.inside is not None:
        item.config.inside.note(report)
    return report


def pytest_sessionfinish(session, exitstatus):
    """A run in which everything was skipped has tested nothing, and fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.inside is None and reporter is not None and session.testscollected:
        stats = reporter.stats
        if stats.get("skipped") and not (stats.get("passed") or stats.get("failed")):
            print("\nevery selected test was skipped: that is a failure", file=sys.stderr)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


class Inside:
    """What a rank does around each test: it writes a line about how it began and ended."""

    def __init__(self, directory):
        from mpi4py import MPI

        self.directory = directory
        self.comm = MPI.COMM_WORLD
        self.log = (directory / f"rank{self.comm.rank}.jsonl").open("a", buffering=1)
        self.stacks = (directory / f"rank{self.comm.rank}.stacks").open("w")

    def write(self, **line):
        self.log.write(json.dumps(line) + "\n")

    def begin(self, nodeid):
        # Ranks that collected something else would wait for each other for ever.
        self.write(test=nodeid, began=True)
        faulthandler.dump_traceback_later(TEST_SECONDS, exit=True, file=self.stacks)

    def note(self, report):
        if report.outcome == "failed":
            self.write(test=report.nodeid, outcome="failed", text=report.longreprtext)
            # Peers may wait for this rank; before that, they are often about to fail just so.
            time.sleep(0.5)
            self.comm.Abort(3)
        elif report.outcome == "skipped":
            self.write(test=report.nodeid, outcome="skipped", text=report.longreprtext)

    def end(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        self.write(test=nodeid, outcome="ended")


class Outside:
    """Starts the jobs and keeps what came of each test."""

    def __init__(self, root, mpis):
        self.root = root
        self.items = []
        self.mpis = mpis
        self.results = {}
        self.warm = False

    def result(self, item):
        if item.nodeid not in self.results:
            ranks, mpi = _ranks_of(item)
            group = [
                i.nodeid
                for i in self.items
                if i.path == item.path
                and _ranks_of(i) == (ranks, mpi)
                and i.nodeid not in self.results
            ]
            while group:
                self.results |= self.run(group, ranks, mpi)
                group = [i for i in group if i not in self.results]
        return self.results[item.nodeid]

    def run(self, nodeids, ranks, mpi):
        """Start one job; return the results of those tests that had their turn."""
        if not self.warm:
            subprocess.run([sys.executable, "-c", WARM_UP], cwd=self.root, check=True)
            self.warm = True
        with tempfile.TemporaryDirectory(prefix="ranks-") as directory:
            ids = Path(directory, "ids")
            ids.write_text("\n".join(nodeids))
            command = [sys.executable, "-c", LAUNCH, str(ranks), sys.executable, "-m", "pytest"]
            command += ["-q", f"--rootdir={self.root}", f"--ranks-results={directory}"]
            command += [f"--mpi={name}={prefix}" for name, prefix in self.mpis.items()]
            env = dict(os.environ)
            if mpi:
                lib = Path(self.mpis[mpi], "lib")
                env["MPI4PY_LIBMPI"] = str(next(iter(lib.glob("libmpi.so.[0-9]*")), lib))
            limit = TEST_SECONDS * 2 + 10 * len(nodeids)
            with Path(directory, "output").open("w+") as output:
                job = subprocess.Popen(
                    [*command, f"@{ids}"],
                    cwd=self.root,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                try:
                    code = job.wait(limit)
                except subprocess.TimeoutExpired:
                    os.killpg(job.pid, 9)
                    code = f"none: killed after {limit} s"
                output.seek(0)
                said = output.read()
            return self.read(Path(directory), nodeids, ranks, code, said)

    def read(self, directory, nodeids, ranks, code, said):
        lines = defaultdict(lambda: defaultdict(list))
        for rank in range(ranks):
            path = directory / f"rank{rank}.jsonl"
            for line in path.read_text().splitlines() if path.exists() else []:
                entry = json.loads(line)
                lines[entry["test"]][rank].append(entry)
        results = {}
        for nodeid in nodeids:
            entries = [lines[nodeid][rank] for rank in range(ranks)]
            failures = [
                f"---- rank {rank} of {ranks}\n{e['text']}"
                for rank, mine in enumerate(entries)
                for e in mine
                if e.get("outcome") == "failed"
            ]
            skips = [e["text"] for mine in entries for e in mine if e.get("outcome") == "skipped"]
            ended = [any(e.get("outcome") == "ended" for e in mine) for mine in entries]
            if failures:
                results[nodeid] = ("failed", "\n".join(failures))
            elif all(ended):
                results[nodeid] = ("skipped", skips[0]) if skips else ("passed", "")
            elif any(entries) and not any(r[0] == "failed" for r in results.values()):
                stacks = "\n".join(
                    f"---- rank {rank}\n{p.read_text()}"
                    for rank in range(ranks)
                    if (p := directory / f"rank{rank}.stacks").exists() and p.stat().st_size
                )
                results[nodeid] = (
                    "failed",
                    f"the job ended (exit code {code}) during this test\n{stacks}\n{said[-4000:]}",
                )
        if not results:
            text = f"the job did not come to its first test (exit code {code})\n{said[-4000:]}"
            return dict.fromkeys(nodeids, ("failed", text))
        return results
