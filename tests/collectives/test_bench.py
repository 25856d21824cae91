import json
import subprocess
import sys

import numpy as np
import pytest

from collectives.bench.buffers import Buffers
from collectives.bench.measure import Timing, measure
from collectives.bench.settings import Settings
from collectives.bench.table import bus_bandwidth, rows, table
from collectives.bench.variant import CASES, Variant, variants
from collectives.collective import ALLREDUCE, COLLECTIVES
from collectives.registry import REGISTRY

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
    "native_us": float,
    "ratio": float,
    "busbw_GBps": float,
    "wrong": int,
}


def bench(*words):
    return subprocess.run(
        [sys.executable, "-m", "collectives", "bench", *words],
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_on_two_ranks(name, tmp_path):
    path = tmp_path / "rows.json"
    words = ["--ranks", "2", "--sizes", "8,1K", "--budget", "10ms", "--json", str(path)]
    done = bench(name, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    algorithms = REGISTRY.names(COLLECTIVES[name])
    assert [(r["bytes"], r["algorithm"]) for r in found] == [
        (n, a) for n in (8, 1024) for a in algorithms
    ]
    for row in found:
        assert {k: type(v) for k, v in row.items()} == KEYS
        assert (row["collective"], row["ranks"], row["wrong"]) == (name, 2, 0)
        assert (row["executor"], row["placement"]) == ("python", "private")
        assert 0 < row["min_us"] <= row["median_us"] <= row["max_us"]
        assert row["ratio"] == pytest.approx(row["median_us"] / row["native_us"])
    header = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert "2 ranks on 1 node" in header[0]
    assert found[0]["mpi"] in header[0]
    assert "pinned" in header[1]
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    library = 1 if name == "bcast" else 2
    assert len(lines) == 1 + 2 * (library + len(algorithms))


@pytest.mark.parametrize("name", ["allreduce", "reduce_scatter", "allgather", "alltoall"])
def test_lengths_that_the_ranks_do_not_divide(name):
    done = bench(
        *(name, "--ranks", "3", "--sizes", "4,40", "--budget", "10ms", "--dtype", "int64"),
        *(() if name in ("allgather", "alltoall") else ("--op", "PROD")),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    lengths = {int(line[0]) for line in lines[1:]}
    assert lengths == ({24, 48} if name == "alltoall" else {8, 40})
    assert {line[-1] for line in lines[1:]} == {"0"}


def test_one_rank():
    done = bench("allreduce", "--ranks", "1", "--sizes", "64", "--budget", "10ms", "--repeat", "3")
    assert done.returncode == 0, done.stderr
    assert "1 ranks on 1 node" in done.stdout


def test_every_collective_has_a_case():
    assert set(CASES) == set(COLLECTIVES)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("allreduce", 1.5),
        ("reduce_scatter", 0.75),
        ("allgather", 0.75),
        ("alltoall", 0.75),
        ("bcast", 1.0),
        ("reduce", 1.0),
    ],
)
def test_bus_bandwidth_of_four_ranks(name, factor):
    assert bus_bandwidth(COLLECTIVES[name], 4, 10**9, 0.5) == pytest.approx(2 * factor)


def timings():
    return [
        Timing("MPI in place", np.array([4e-6, 5e-6, 6e-6]), 0),
        Timing("MPI out of place", np.array([1e-6, 4e-6, 9e-6]), 0),
        Timing("ring", np.array([7e-6, 8e-6, 90e-6]), 3),
    ]


def test_rows_compare_with_the_faster_of_the_library_s_calls():
    (row,) = rows(ALLREDUCE, "MPI 1.0", 2, 1000, timings())
    assert row.algorithm == "ring"
    assert (row.median_us, row.min_us, row.max_us) == pytest.approx((8, 7, 90))
    assert row.native_us == pytest.approx(4)
    assert row.ratio == pytest.approx(2)
    assert row.busbw_GBps == pytest.approx(1000 / 8e-6 / 1e9)
    assert row.wrong == 3


def test_the_table_has_a_line_for_each():
    first, second, third = table(ALLREDUCE, 2, 1000, timings()).splitlines()
    assert first.split()[-2:] == ["1.25", "0"]
    assert second.split()[-2:] == ["1.00", "0"]
    assert third.split() == ["1000", "ring", "3", "8.00", "7.00", "90.00", "0.125", "2.00", "3"]


@pytest.mark.ranks(1, 3)
def test_wrong_elements_are_counted_over_all_ranks(comm):
    algorithm = REGISTRY.get(ALLREDUCE, "ring")
    settings = Settings(ALLREDUCE, (algorithm,), (40,), budget=0.001, most=7)
    buffers = Buffers(comm, settings, 40)
    ways = variants(comm, settings, buffers)
    ring = ways[-1]

    def two_wrong():
        ring.call()
        buffers.work[3:5] += 1

    found = measure(comm, settings, [*ways, Variant("two", ring.reset, two_wrong, ring.result)])
    ring.plan.close()
    assert [t.wrong for t in found] == [0, 0, 0, 2 * comm.size]
    assert all(5 <= t.seconds.size <= 7 for t in found)
    assert comm.allgather(found[2].median) == [found[2].median] * comm.size
