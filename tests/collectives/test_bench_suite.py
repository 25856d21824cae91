"""The standard suite, the pictures, and comparisons with other libraries."""

import json
import re
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest

from collectives.bench import limits
from collectives.bench.floor import Floor
from collectives.bench.limits import Check
from collectives.bench.plot import plot
from collectives.bench.row import Row


def bench(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "collectives", "bench", *words],
        capture_output=True,
        text=True,
        timeout=300,
        **options,
    )


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "rows.json"
    words = ("--suite", "standard", "--sizes", "8,64K", "--budget", "10ms", "--compare", "native")
    done = bench(*words, "--json", str(path))
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())


def test_the_suite_times_every_executor_at_every_length(suite):
    _, rows = suite
    pytest.importorskip("numba")
    ways = [("library", "private", "in-place"), ("library", "private", "out-of-place")]
    ways += [("shared", "window", "in-place"), (None, "private", "in-place")]
    ways += [("shared", "private", "in-place")]
    ways += [("native", "private", "in-place")] * len(limits.ALGORITHMS)
    for row, (executor, placement, mode) in zip(rows, 3 * ways, strict=True):
        assert executor in (None, row["executor"])
        assert (row["placement"], row["mode"], row["wrong"]) == (placement, mode, 0)
    runs = [(8, 1), (8, 10), (1 << 16, 1)]
    assert [(r["bytes"], r["calls"]) for r in rows] == [run for run in runs for _ in ways]


def test_the_suite_judges_every_figure(suite):
    pytest.importorskip("numba")
    said, _ = suite
    table = said.splitlines()
    head = next(i for i, line in enumerate(table) if line.split()[:2] == ["bytes", "calls"])
    runs = (["8", "1"], ["8", "10"], ["65536", "1"])
    for line, run in zip(table[head + 1 : head + 4], runs, strict=True):
        assert line.split()[:2] == run
        assert line.count("<=") == 3
        assert line.count("PASS") + line.count("MISS") == 3
    for what in (
        "auto 8 B",
        "auto 8 B x10",
        "auto 64 KiB",
        "auto, messages 8 B",
        "auto, messages 8 B x10",
        "auto, messages 64 KiB",
        "import collectives",
        "first native call of 2 ranks",
        "simulate a ring of 10000 ranks",
        "its time off the closed form",
    ):
        (line,) = [line for line in table if line.startswith(f"{what}: ")]
        assert ("PASS" in line) != ("MISS" in line)
    held, of = table[-1].split()[0], table[-1].split()[2]
    assert int(of) == 3 * 3 + 2 * 3 + 4
    assert int(held) == said.count(" PASS")
    assert "of 19 limits held" in table[-1]
    simulated = next(line for line in table if line.startswith("its time off"))
    assert "PASS" in simulated


@pytest.mark.parametrize(
    "words", [["allreduce"], ["--algorithm", "ring"], ["--mode", "call"], ["--dtype", "int32"]]
)
def test_the_suite_says_itself_what_to_time(words):
    done = bench("--suite", "standard", *words)
    assert done.returncode == 2
    assert "--suite standard: says itself what to time; leave out" in done.stderr


def test_a_table_that_is_none():
    done = bench("allreduce", "--table", "/no/such/table.toml")
    assert done.returncode == 2
    assert "/no/such/table.toml" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_collective_or_a_suite():
    done = bench()
    assert done.returncode == 2
    assert "say a collective (allreduce, reduce, " in done.stderr


def test_limits_and_verdicts():
    held, missed = Check("a", 0.4, 0.45), Check("window 8 B", 0.5, 0.45, " s", "ring")
    absent = Check("c", None, 1.0)
    assert (held.held, missed.held, absent.held) == (True, False, False)
    assert str(missed) == "window 8 B: 0.5 s <= 0.45 s MISS (ring)"
    assert str(absent) == "c: none <= 1 MISS"
    assert limits.load(limits.dump([held, missed])) == [held, missed]
    lines = limits.closing([held, missed], [absent]).splitlines()
    assert lines == [
        "",
        "a: 0.4 <= 0.45 PASS",
        "c: none <= 1 MISS",
        "1 of 3 limits held; missed: window 8 B; c",
    ]
    assert limits.closing([held], [held]).splitlines()[-1] == "2 of 2 limits held"
    assert "a launcher was at work" in limits.closing([held], None)


@pytest.mark.ranks(1, 2, 3)
def test_the_floor_moves_what_an_allreduce_has_to(comm):
    floor = Floor(comm, 400_004)
    floor._own[:] = np.arange(100_001) % 7 + comm.rank
    comm.Barrier()
    floor.move()
    comm.Barrier()
    expected = sum(np.arange(100_001) % 7 + r for r in range(comm.size))
    assert np.array_equal(floor._own, expected)
    comm.Barrier()
    floor.close()


def row(**fields):
    base = {
        "collective": "allreduce",
        "algorithm": "auto",
        "executor": "native",
        "placement": "private",
        "mpi": "MPI 1.0",
        "ranks": 2,
        "bytes": 8,
        "median_us": 3.0,
        "min_us": 2.0,
        "max_us": 4.0,
        "native_us": 4.0,
        "ratio": 0.75,
        "busbw_GBps": 1.0,
        "wrong": 0,
        "mode": "in-place",
        "chosen": "ring",
        "overlap": None,
        "native_overlap": None,
        "disturbed": 0.0,
        "calls": 1,
    }
    return Row(**{**base, **fields})


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_a_picture_has_every_series_the_library_and_the_model(suffix, tmp_path):
    rows = [row(bytes=n, median_us=n / 4) for n in (8, 1024, 1 << 20)]
    rows += [row(bytes=n, executor="shared", chosen="direct") for n in (8, 1024)]
    v = {"collective": "alltoallv", "native_us": None, "ratio": None, "disturbed": 0.5}
    rows += [row(executor="python", **v)]
    path = tmp_path / f"picture{suffix}"
    plot(path, rows)
    if suffix == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    text = path.read_text()
    for words in (
        "auto, native, private",
        "auto, shared, private",
        "auto, python, private",
        "MPI library&#x27;s own" if "&#x27;" in text else "MPI library's own",
        "the model",
        "allreduce, in-place",
        "alltoallv, in-place",
        "1 MiB",
        "2 ranks, MPI 1.0",
        "the machine was not quiet",
    ):
        assert words in text, words


def test_a_picture_of_one_length_has_bars_with_names_and_numbers(tmp_path):
    rows = [row(bytes=1024, median_us=3.25, algorithm="ring"), row(bytes=1024, algorithm="tree")]
    rows += [row(collective="barrier", bytes=0, busbw_GBps=0.0, median_us=1.125, chosen="linear")]
    path = tmp_path / "picture.svg"
    plot(path, rows)
    text = path.read_text()
    for words in (
        "allreduce, in-place, 1 KiB: microseconds (mark: the model)",
        "barrier, in-place: microseconds",
        "ring, native, private",
        "tree, native, private",
        ">3.25<",
        ">1.125<",
        ">4<",  # the library's
    ):
        assert words in text, words


def test_a_picture_says_what_auto_took_and_draws_equal_curves_once(tmp_path):
    rows = [row(bytes=8, chosen="tree"), row(bytes=1024, chosen="ring"), row(bytes=2048)]
    # On two ranks these two are the same schedule.
    rows += [row(bytes=n, algorithm=a, chosen=a) for a in ("ring", "swing") for n in (8, 1024)]
    plot(tmp_path / "curves.svg", rows)
    text = (tmp_path / "curves.svg").read_text()
    assert "from 8 B: tree" in text
    assert "from 1 KiB: ring" in text
    assert "from 2 KiB" not in text
    assert "the model (grey: of several)" in text
    plot(tmp_path / "bars.svg", rows[1:2])
    assert "auto, native, private: ring" in (tmp_path / "bars.svg").read_text()


def test_a_picture_of_one_rank_has_no_bandwidth(tmp_path):
    rows = [row(ranks=1, bytes=n, median_us=n / 4, busbw_GBps=0.0) for n in (8, 1024)]
    plot(tmp_path / "curves.svg", rows)
    plot(tmp_path / "bars.svg", rows[:1])
    for name in ("curves.svg", "bars.svg"):
        assert "bus bandwidth" not in (tmp_path / name).read_text()


@pytest.mark.parametrize("us", [(3, 4), (3, 300), (1.1, 1.2)])
def test_the_axis_has_numbers(us, tmp_path):
    path = tmp_path / "picture.svg"
    plot(path, [row(bytes=8 << i, median_us=t, native_us=None) for i, t in enumerate(us)])
    numbers = re.findall(r">([0-9.]+)</text>", path.read_text())
    assert len([n for n in numbers if 0.5 <= float(n) <= 500]) >= 2


def test_a_picture_is_drawn_after_the_run(tmp_path):
    path = tmp_path / "x.svg"
    words = ("bcast", "--sizes", "64,1K", "--budget", "5ms", "--algorithm", "binomial")
    done = bench(*words, "--plot", str(path))
    assert done.returncode == 0, done.stderr
    assert "<svg" in path.read_text()
    done = bench(*words, "--plot", str(tmp_path / "x.jpg"))
    assert done.returncode == 2
    assert "the name has to end in one of .png, .svg, .pdf" in done.stderr


def test_gloo_beside(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "rows.json"
    names = "allreduce,reduce,bcast,reduce_scatter,allgather,alltoall,gather,scatter,barrier"
    words = ("--sizes", "120", "--budget", "5ms", "--algorithm", "auto", "--compare", "gloo")
    done = bench(f"{names},gatherv", *words, "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = [r for r in json.loads(path.read_text()) if r["executor"] == "gloo"]
    assert [r["collective"] for r in rows] == names.split(",")
    assert all((r["algorithm"], r["placement"], r["wrong"]) == ("gloo", "private", 0) for r in rows)
    assert "# left out: gloo: has no gatherv of float32" in done.stdout


def test_without_torch_one_line_says_so():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from collectives.__main__ import main\n"
        "sys.exit(main(['bench', 'allreduce', '--started', '1', '--compare', 'gloo']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "--compare gloo: needs PyTorch (pip install torch)" in done.stderr
    assert "Traceback" not in done.stderr


def test_rows_can_be_written_and_read():
    assert list(asdict(row()))[:14] == [
        *("collective", "algorithm", "executor", "placement", "mpi", "ranks", "bytes"),
        *("median_us", "min_us", "max_us", "native_us", "ratio", "busbw_GBps", "wrong"),
    ]
