"""The benchmark: its rows, its modes, and that it notices wrong results."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

from collectives.bench.cases import CASES
from collectives.bench.measure import Timing, measure
from collectives.bench.row import bus_bandwidth
from collectives.bench.settings import (
    CALL,
    IN_PLACE,
    MODES,
    OUT_OF_PLACE,
    OVERLAP,
    OVERLAPS,
    UNEVEN,
    Settings,
)
from collectives.bench.table import heading, rows, table
from collectives.bench.variant import LIBRARY, Label, Variant
from collectives.bench.ways import Builder
from collectives.collective import ALLREDUCE, BARRIER, COLLECTIVES
from collectives.registry import REGISTRY

NUMBER = (float, type(None))
KEYS = {
    "collective": str,
    "algorithm": str,
    "executor": str,
    "placement": str,
    "mpi": str,
    "ranks": int,
    "bytes": int,
    "median_us": float,
    "min_us": float,
    "max_us": float,
    "native_us": NUMBER,
    "ratio": NUMBER,
    "busbw_GBps": float,
    "wrong": int,
    "mode": str,
    "chosen": str,
    "overlap": NUMBER,
    "native_overlap": NUMBER,
    "calls": int,
    "disturbed": float,
}
NO_FORMS = {
    "bcast": OUT_OF_PLACE,
    "barrier": OUT_OF_PLACE,
    "alltoall": IN_PLACE,
    "gather": IN_PLACE,
    "scatter": IN_PLACE,
}


def bench(*words):
    return subprocess.run(
        [sys.executable, "-m", "collectives", "bench", *words],
        capture_output=True,
        text=True,
        timeout=300,
    )


def rows_of(tmp_path, *words):
    path = tmp_path / "rows.json"
    done = bench(*words, "--json", str(path))
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    for row in found:
        assert list(row) == list(KEYS)
        assert all(isinstance(row[k], kind) for k, kind in KEYS.items()), row
        assert row["executor"] in ("python", "native", "shared", "library", "gloo")
        assert row["placement"] in ("private", "window")
        assert 0 < row["min_us"] <= row["median_us"] <= row["max_us"]
        if row["native_us"] is not None:
            assert row["ratio"] == pytest.approx(row["median_us"] / row["native_us"])
        assert row["wrong"] == 0
    return found, done.stdout


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_algorithm_of_every_collective_on_two_ranks(name, tmp_path):
    found, said = rows_of(
        tmp_path, name, "--ranks", "2", "--sizes", "8,1K", "--budget", "10ms", "--executor=python"
    )
    algorithms = [*REGISTRY.names(COLLECTIVES[name]), "auto"]
    sizes = (0,) if name == "barrier" else (8, 1024)
    assert [(r["bytes"], r["algorithm"]) for r in found] == [
        (n, a) for n in sizes for a in algorithms
    ]
    for row in found:
        assert (row["collective"], row["ranks"]) == (name, 2)
        assert (row["executor"], row["placement"]) == ("python", "private")
        assert row["mode"] == (OUT_OF_PLACE if NO_FORMS.get(name) == IN_PLACE else IN_PLACE)
        assert row["overlap"] is None
        assert row["chosen"] in algorithms[:-1]
    header = [line for line in said.splitlines() if line.startswith("#")]
    assert "2 ranks on 1 node" in header[0]
    assert found[0]["mpi"] in header[0]
    assert "pinned" in header[0]
    lines = [line for line in said.splitlines() if not line.startswith("#")]
    library = 1 if name in ("bcast", "barrier") else 2
    assert len(lines) == 1 + len(sizes) * (library + len(algorithms))


def test_all_collectives_and_those_with_uneven_parts(tmp_path):
    words = ("--ranks", "3", "--sizes", "120", "--budget", "5ms", "--repeat", "2")
    found, _ = rows_of(tmp_path, "all", *words, "--algorithm", "auto", "--compare", "library")
    ours = [r["collective"] for r in found if r["executor"] != "library"]
    assert ours == [*COLLECTIVES, *(f"{name}v" for name in UNEVEN)]
    library = [r for r in found if r["executor"] == "library"]
    assert {r["algorithm"] for r in library} == {"MPI in place", "MPI out of place"}


def test_all_modes(tmp_path):
    pytest.importorskip("numba")
    names = ("allreduce", "bcast", "gatherv")
    words = ("--sizes", "120", "--budget", "5ms", "--repeat", "2", "--mode", "all")
    found, said = rows_of(
        tmp_path, ",".join(names), *words, "--algorithm", "auto", "--executor", "native"
    )
    for name in names:
        ours = [r for r in found if r["collective"] == name]
        none = NO_FORMS.get(name.removesuffix("v"))
        assert [r["mode"] for r in ours] == [m for m in MODES if m != none], name
        for row in ours:
            assert (row["overlap"] is not None) == (row["mode"] in OVERLAPS)
            assert (row["native_overlap"] is not None) == (row["mode"] in OVERLAPS)
            assert row["overlap"] is None or 0 <= row["overlap"] <= 1
    assert "# left out: out-of-place: a plan of bcast does not work that way" in said


@pytest.mark.parametrize("name", ["allreduce", "reduce_scatter", "allgather", "alltoall", "gather"])
def test_lengths_that_the_ranks_do_not_divide(name):
    done = bench(
        *(name, "--ranks", "3", "--sizes", "4,40", "--budget", "10ms", "--dtype", "int64"),
        *(("--op", "PROD") if name in ("allreduce", "reduce_scatter") else ()),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    lengths = {int(line[0]) for line in lines[1:]}
    assert lengths == ({24, 48} if name in ("alltoall", "gather") else {8, 40})
    assert {line[-1] for line in lines[1:]} == {"0"}


def test_one_rank():
    done = bench("allreduce", "--ranks", "1", "--sizes", "64", "--budget", "10ms", "--repeat", "3")
    assert done.returncode == 0, done.stderr
    assert "1 rank on 1 node" in done.stdout


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_the_library_does_not_reduce(dtype, tmp_path):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    words = ("--ranks", "3", "--sizes", "100", "--budget", "5ms", "--dtype", dtype)
    found, _ = rows_of(tmp_path, "allreduce,allgather", *words, "--algorithm", "ring,auto")
    for row in found:
        reduces = row["collective"] == "allreduce"
        assert (row["native_us"] is None) == (row["ratio"] is None) == reduces


def test_algorithms_with_tunables(tmp_path):
    name, tunable = next(
        (a.name, t) for a in REGISTRY.all() if a.collective is ALLREDUCE for t in a.tunables
    )
    value = REGISTRY.get(ALLREDUCE, name).tunables[tunable].values(2)[-1]
    spec = f"{name}:{tunable}={value}"
    words = ("--sizes", "64", "--budget", "5ms", "--algorithms", f"ring,{spec}")
    found, _ = rows_of(tmp_path, "allreduce", *words)
    assert [r["algorithm"] for r in found] == ["ring", spec]


def test_what_cannot_be_had_is_left_out_and_said():
    words = ("--sizes", "64", "--budget", "5ms", "--mode")
    done = bench("gather", *words, "in-place,out-of-place", "--algorithm", "auto")
    assert done.returncode == 0, done.stderr
    assert "# left out: in-place: a plan of gather does not work that way" in done.stdout
    done = bench("gather", *words, "in-place")
    assert done.returncode == 1
    reason = "in-place: a plan of gather does not work that way"
    assert f"gather: nothing can be timed; {reason}" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_collective_has_a_case():
    assert set(CASES) == set(COLLECTIVES)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("allreduce", 1.5),
        ("reduce_scatter", 0.75),
        ("allgather", 0.75),
        ("alltoall", 0.75),
        ("gather", 0.75),
        ("scatter", 0.75),
        ("bcast", 1.0),
        ("reduce", 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks(name, factor):
    assert bus_bandwidth(COLLECTIVES[name], 4, 10**9, 0.5) == pytest.approx(2 * factor)


def library(mode, *times, overlap=None):
    name = f"MPI {mode}".replace("-", " ")
    return Timing(Label(name, LIBRARY, "private", mode), np.array(times), 0, overlap=overlap)


def timings():
    return [
        library(IN_PLACE, 4e-6, 5e-6, 6e-6),
        library(OUT_OF_PLACE, 1e-6, 4e-6, 9e-6),
        Timing(
            Label("auto", "native", "window", IN_PLACE, "ring"), np.array([7e-6, 8e-6, 90e-6]), 3
        ),
        library(OVERLAP, 2e-6, overlap=0.25),
        Timing(Label("ring", "python", "private", OVERLAP), np.array([3e-6]), 0, overlap=0.75),
    ]


def test_rows_compare_with_the_faster_of_the_library_s_calls():
    settings = Settings(ALLREDUCE, None, (1000,))
    row, overlapped = rows(settings, "MPI 1.0", 2, 1000, timings())
    assert (row.algorithm, row.executor, row.placement) == ("auto", "native", "window")
    assert (row.mode, row.chosen) == (IN_PLACE, "ring")
    assert (row.median_us, row.min_us, row.max_us) == pytest.approx((8, 7, 90))
    assert row.native_us == pytest.approx(4)
    assert row.ratio == pytest.approx(2)
    assert row.busbw_GBps == pytest.approx(1000 / 8e-6 / 1e9)
    assert row.wrong == 3
    # What is begun and waited for is compared with what is begun and waited for.
    assert overlapped.ratio == pytest.approx(1.5)
    assert (overlapped.overlap, overlapped.native_overlap) == (0.75, 0.25)
    compared = Settings(ALLREDUCE, None, (8,), compare=("library",))
    assert len(rows(compared, "", 2, 8, timings())) == 5


def test_the_table_has_a_line_for_each():
    first, second, third, _, last = table(ALLREDUCE, 2, 1000, timings(), overlap=True).splitlines()
    assert first.split()[-3:] == ["1.25", "0", "-"]
    assert second.split()[-3:] == ["1.00", "0", "-"]
    assert " ".join(third.split()) == (
        "1000 auto (ring) native window in-place 3 8.00 7.00 90.00 0.125 2.00 3 -"
    )
    assert last.split()[-4:] == ["1.50", "0", "75", "%"]
    assert heading(overlap=False).split()[-1] == "wrong"
    assert len(heading(overlap=True)) >= len(third)


def test_calls_in_a_row(tmp_path):
    words = ("--sizes", "8", "--budget", "5ms", "--algorithm", "ring", "--batch", "7")
    (row,), said = rows_of(tmp_path, "allreduce", *words)
    assert row["calls"] == 7
    assert "# a run is 7 calls in a row, ours and the library's alike" in said


def builder(comm, collective=ALLREDUCE, **settings):
    algorithms = settings.pop("algorithms", None)
    settings = Settings(collective, algorithms, (40,), budget=0.001, most=7, **settings)
    return settings, Builder(comm, settings, 40, lambda reason: None)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("calls", [1, 4])
def test_wrong_elements_are_counted_over_all_ranks(comm, calls):
    settings, made = builder(comm, executors=("python",))
    ways = made.build()
    ring = next(v for v in ways.variants if v.label.algorithm == "ring")

    def two_wrong():
        ring.call()
        made.private.work[3:5] += 1

    bad = made._variant(
        ring.label, made._cases["private"].forms[IN_PLACE](), two_wrong, made.private.work
    )
    found = measure(comm, settings, [*ways.variants, bad], calls=calls)
    ways.close()
    assert [t.wrong for t in found[:-1]] == [0] * len(ways.variants)
    assert found[-1].wrong == 2 * comm.size
    assert all(5 <= t.seconds.size <= 7 for t in found)
    assert comm.allgather(found[2].median) == [found[2].median] * comm.size


@pytest.mark.ranks(2)
def test_a_barrier_that_does_not_wait_is_wrong(comm):
    settings, made = builder(comm, BARRIER)
    ways = made.build()
    form = made._cases["private"].forms[IN_PLACE]()
    empty = made._variant(ways.variants[0].label, form, lambda: None, form.result)
    *found, wrong = measure(comm, settings, [*ways.variants, empty])
    ways.close()
    assert [t.wrong for t in found] == [0] * len(found)
    assert wrong.wrong > 0


@pytest.mark.ranks(2)
def test_what_is_refused_on_one_rank_is_made_on_none(comm):
    _, made = builder(comm)
    form = made._cases["private"].forms[IN_PLACE]()

    class Plan:
        closed = False

        def close(self):
            self.closed = True

    made_here = Plan()

    def plan(**options):
        if comm.rank == 1:
            raise ValueError("no room")
        return made_here

    assert made._plan(type(form)(**{**fields(form), "plan": plan}), {}) == (None, "no room")
    assert made_here.closed == (comm.rank == 0)


@pytest.mark.ranks(2)
def test_calls_of_one_function_make_their_own_plans(comm):
    settings, made = builder(comm, modes=(CALL, IN_PLACE), algorithms=("ring",))
    ways = made.build()
    found = measure(comm, settings, ways.variants)
    ways.close()
    assert [(t.label.mode, t.wrong) for t in found if t.label.executor != LIBRARY] == [
        (CALL, 0),
        (IN_PLACE, 0),
    ]


@pytest.mark.ranks(1)
def test_runs_in_which_the_core_was_lost_are_left_out(comm, monkeypatch):
    asked = itertools.count()
    # Before and after each run; one was counted in every other run.
    counts = (n // 4 + (n % 4 == 3) for n in asked)
    monkeypatch.setattr("collectives.bench.measure._switches", lambda: next(counts))
    settings = Settings(ALLREDUCE, None, (8,), budget=0.001, least=20, most=20)
    label = Label("ring", "python", "private", IN_PLACE)

    def call():
        return None

    (timing,) = measure(comm, settings, [Variant(label, call, call, call, lambda: 0)])
    assert timing.seconds.size == 10
    assert timing.disturbed == 0.5
    assert timing.calm


@pytest.mark.ranks(1)
def test_where_one_of_all_was_never_calm_all_runs_of_all_count(comm, monkeypatch):
    lost = [0]
    monkeypatch.setattr("collectives.bench.measure._switches", lambda: lost[0])
    settings = Settings(ALLREDUCE, None, (8,), budget=0.001, least=20, most=20)

    def loses():
        lost[0] += 1

    def calm():
        return None

    variants = [
        Variant(Label(name, "python", "private", IN_PLACE), calm, calm, call, lambda: 0)
        for name, call in (("a", loses), ("b", calm))
    ]
    found = measure(comm, settings, variants)
    assert [(t.seconds.size, t.disturbed, t.calm) for t in found] == [
        (20, 1.0, False),
        (20, 0.0, False),
    ]
    said = table(ALLREDUCE, 1, 8, found, overlap=False)
    assert "in up to 100 % of the runs" in said
    assert said.endswith("the machine is not quiet, and those runs count, too")


def fields(form):
    return {name: getattr(form, name) for name in form.__dataclass_fields__}
