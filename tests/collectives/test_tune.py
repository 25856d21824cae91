import io
import os
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from collectives import __main__ as cli
from collectives.collective import ALLREDUCE, ALLTOALL, BARRIER, BCAST
from collectives.commands.arguments import UsageError
from collectives.commands.tune import _measure, joined
from collectives.fit import Fit
from collectives.machine import machine
from collectives.select import NATIVE, PYTHON, predicted, variants
from collectives.table import Table, Way

from .test_table import section, table

FITS = {"native": Fit(NATIVE, 0.1), "python": Fit(PYTHON, 0.1)}


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "collectives", *words], capture_output=True, text=True, timeout=100
    )


def test_what_is_worth_a_try():
    from collectives.candidates import candidates

    found = candidates(ALLREDUCE, 4, (8, 1 << 16, 1 << 24), FITS)
    assert {w.algorithm for w in found} <= set(variants(ALLREDUCE, 4))
    assert {w.executor for w in found} == {"native", "python"}
    assert len(found) == len(set(found)) < 40
    ways = {w.algorithm for w in found if w.executor == "native"}
    assert {"recursive_doubling", "rabenseifner"} <= ways
    # On two ranks nearly all settings are the same schedule.
    assert len(candidates(ALLTOALL, 2, (8, 1 << 20), FITS)) < 8


def test_the_best_come_first():
    from collectives.candidates import candidates

    sizes = (8, 1 << 24)
    found = candidates(ALLREDUCE, 4, sizes, FITS)
    for executor, model in (("native", NATIVE), ("python", PYTHON)):
        ways = [w.algorithm for w in found if w.executor == executor]
        for n in sizes:
            prices = {spec: predicted(ALLREDUCE, spec, 4, n, model) for spec in ways}
            assert min(prices, key=prices.get) in ways[:2]


def test_lengths_between_two():
    from collectives.check_table import between

    assert between((8, 512, 32768), 4) == [64, 4096]
    assert between((1000, 4000), 128) == [1920]
    assert between((8, 32), 128) == [16]
    assert between((64,), 4) == [64]


def test_a_table_is_added_to():
    old = table(sections=(section(ranks=2), section(ranks=4)))
    new = table(sections=(section(ranks=4), section(itemsize=8)), fits={"python": FITS["python"]})
    both = joined(old, new)
    assert both.sections == (old.sections[0], *new.sections)
    assert set(both.fits) == {"native", "python"}
    assert joined(None, new) is new


def test_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "table.toml"
    words = ["--collective", "allreduce,barrier", "--sizes", "64,4K", "--executor", "python"]
    done = command("tune", "-n", "3", *words, "--budget", "8s", "-o", str(path))
    assert done.returncode == 0
    progress = done.stderr.splitlines()
    assert [re.sub(r"\d+ s left", "T", line) for line in progress] == [
        "1 of 2 sections: allreduce, private; about T",
        "2 of 2 sections: barrier, private; about T",
    ]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3 ranks, ")
    assert re.match(
        r"python: latency L \S+ .s, bandwidth 1/G .*, gap g .*; residual \d+ %", lines[1]
    )
    assert lines[-1] == f"written: {path}, 2 sections"
    told = re.findall(
        r"^(\w+), private(?:, (\d+) bytes)?: (\S+ on python), (\S+) us, of \d+ ways",
        done.stdout,
        re.M,
    )
    assert [(name, nbytes) for name, nbytes, _, _ in told] == [
        ("allreduce", "64"),
        ("allreduce", "4096"),
        ("barrier", ""),
    ]
    for name, nbytes, way, us in told:  # what is told is what the table says
        asked = ["explain", name, "-n", "3", "--bytes", nbytes or "64", "--table", str(path)]
        assert cli.main(asked) == 0
        said = capsys.readouterr().out
        assert f"{way.replace('on python', 'on the python executor')}: measured with " in said
        took = float(re.search(r", (\S+) us here\.", said).group(1))
        assert took == pytest.approx(float(us), rel=1e-4, abs=0.011)  # rounded in the file
    found = Table.load(path)
    assert [s.collective for s in found.sections] == ["allreduce", "barrier"]
    assert found.sections[0].sizes == (64, 4096)
    assert found.sections[1].sizes == (64,)
    assert set(found.fits) == ({"python"} if "does not fit" not in lines[1] else set())

    other = ["--collective", "barrier", "--executor", "python", "--dtype", "int64"]
    again = command("tune", "-n", "3", *other, "--budget", "1s", "-o", str(path))
    assert again.stdout.splitlines()[-1] == f"written: {path}, 3 sections"
    assert [s.itemsize for s in Table.load(path).sections] == [4, 4, 8]

    checked = command("tune", "-n", "3", "--check", str(path), "--budget", "0.2s")
    assert checked.returncode in (0, 1)  # the machine may be busy
    *_, one, last = checked.stdout.splitlines()
    assert re.match(r"barrier, private: \S+ on python, \d+\.\d\d x the best", one)
    assert re.match(r"worst: \d+\.\d\d x the best, \S+ at \d+ bytes; the limit is 1.15", last)

    other = path.read_text().replace('mpi = "', 'mpi = "Other ')
    path.write_text(other)
    refused = command("tune", "-n", "3", *words, "--budget", "0.5s", "-o", str(path))
    assert refused.returncode != 0
    assert "the table was measured with Other " in refused.stderr
    assert path.read_text() == other

    explained = command("explain", "allreduce", "-n", "3", "--bytes", "1K", "--table", str(path))
    assert explained.returncode == 0
    assert "allreduce on 3 ranks, 1024 bytes, private buffers" in explained.stdout
    assert " on the python executor: measured with Other " in explained.stdout


def test_a_folder_that_cannot_be_written_to_is_said_before(tmp_path, monkeypatch, capsys):
    path = tmp_path / "table.toml"
    table(machine=machine()).save(path)
    monkeypatch.setattr(os, "access", lambda where, how: where != tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["tune", "-n", "2", "-o", str(path)])
    assert ended.value.code == 2
    assert f"error: -o {path}: cannot write to {tmp_path}\n" in capsys.readouterr().err


def test_a_table_that_cannot_be_written_after_all_is_said_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "gone" / "table.toml"
    words = {"collective": None, "sizes": None, "executor": None, "placement": None}
    args = Namespace(check=None, output=path, terminal=None, dtype="float32", budget=1.0, **words)
    monkeypatch.setattr("collectives.tune.tune", lambda *args: table())
    with pytest.raises(UsageError, match=f"-o {path}: No such file or directory"):
        _measure(SimpleNamespace(Get_rank=lambda: 0), args, None)


def test_how_far_it_is():
    from collectives.commands.tune import _Shown
    from collectives.tune import Progress

    steps = [Progress("bcast, private", 2, 17, done, 3, 9.6 - 5 * done) for done in (1, 2, 3)]
    out = io.StringIO()
    for step in steps:
        _Shown(out, terminal=False)(step)
    assert out.getvalue() == "2 of 17 sections: bcast, private; about 0 s left\n"
    out = io.StringIO()
    for step in steps:
        _Shown(out, terminal=True)(step)
    *_, first, second, end = out.getvalue().split("\r\x1b[K")
    assert first == "section 2 of 17: bcast, private, 1 of 3 lengths; about 5 s left"
    assert second == "section 2 of 17: bcast, private, 2 of 3 lengths; about 0 s left"
    assert end == ""


def test_explain(capsys):
    assert cli.main(["explain", "bcast", "-n", "4", "--bytes", "1MiB"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "bcast on 4 ranks, 1048576 bytes, private buffers"
    assert lines[1].startswith("direct on the shared executor, if all ranks are on one node and ")
    assert lines[2].startswith("On Intel MPI messages were measured to be quicker")
    assert lines[3].startswith("With messages on one node: ")
    assert "on the native executor: there is no table, and the model prices it lowest" in lines[3]
    assert sum(line.startswith("*") for line in lines) == 1
    assert cli.main(["explain", "bcast", "-n", "3", "--bytes", "8", "--executor", "python"]) == 0
    said = capsys.readouterr().out
    assert "native" not in said
    assert "shared" not in said
    assert cli.main(["explain", "barrier", "-n", "3"]) == 0
    assert capsys.readouterr().out.startswith("barrier on 3 ranks\ndirect on the shared executor")


def test_explain_says_the_price_and_the_place_of_what_is_asked_for(capsys):
    words = ["explain", "allreduce", "ring:segments=3", "-n", "4", "--bytes", "64M"]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "\nFrom 32 MiB on messages were measured to be quicker than shared memory" in said
    # Parts of 16 MiB in messages of 4 MiB.
    assert "\nOn Open MPI auto takes ring:segments=4.\nElse auto takes " in said
    price = predicted(ALLREDUCE, "ring:segments=3", 4, 64 << 20, NATIVE)
    line = rf"^ring:segments=3 on the native executor: {1e6 * price:.2f} us predicted, place (\d+)"
    place = int(re.search(line, said, re.MULTILINE)[1])
    ways = [*variants(ALLREDUCE, 4), "ring:segments=3"]
    prices = [
        f"{1e6 * predicted(ALLREDUCE, spec, 4, 64 << 20, model):.2f}"
        for spec in ways
        for model in (NATIVE, PYTHON)
    ]
    assert place == 1 + sum(float(p) < float(f"{1e6 * price:.2f}") for p in prices)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tune", "say where to write the table with -o FILE, or which one to --check"),
        ("tune -o a --check b", "say where to write the table with -o FILE, or which one to --che"),
        (
            "tune -o a --collective allredcue",
            "'allredcue' (did you mean allreduce?); there are: allreduce",
        ),
        ("tune -o a --executor gpu", "--executor gpu: there are native, python, shared"),
        ("tune -o a --placement disk", "--placement disk: there are private, window"),
        ("tune -o a --dtype float8", "--dtype float8: there are float32"),
        ("tune -o /no/such/folder/a.toml", "/no/such/folder/a.toml: No such file or directory"),
        ("tune --check /no/a.toml", "/no/a.toml: cannot be read: No such file or directory"),
        ("tune -o a --executor shared", "--executor shared: needs one that runs schedules, too"),
        ("tune -o a -n 1", "-n 1: needs 2 ranks, between which a message travels"),
        ("tune --check a --executor native", "--executor: is not for --check, which takes those"),
        ("tune --check a --bytes 8", "--bytes: is not for --check, which takes those of the table"),
        ("tune -o /", "/: cannot be read: Is a directory"),
        ("explain allredcue -n 4 --bytes 8", "'allredcue' (did you mean allreduce?); there are"),
        ("explain bcast -n 4 --bytes 8 --table /no/a.toml", "/no/a.toml: cannot be read: No such"),
        ("explain bcast -n 4 --bytes 8 --executor gpu", "--executor gpu: there are native, pyt"),
        ("explain bcast -n 4 --bytes 8 --executor shared", "has no model; needs one of na"),
        ("explain bcast -n 4 --bytes 8 --placement x", "--placement x: there are private, window"),
        ("explain bcast -n 20001 --bytes 8", "is too many ranks; the most is 20000"),
        ("explain bcast --bytes 8", "arguments are required: -n/--ranks"),
    ],
)
def test_one_line_for_a_wrong_word(capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        cli.main(words.split())
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.ranks(3, 4, every_mpi=True)
def test_a_model_is_measured(comm):
    from collectives.measure_model import measure_models

    sizes = (8, 1024, 65536)
    found = measure_models(comm, ["python"], sizes=sizes, budget=0.0, least=1)["python"]
    assert found == comm.bcast(found)
    assert 0 < found.model.message(8) < 1
    assert found.model.byte_time >= 0
    assert np.isfinite(found.residual)


@pytest.mark.ranks(1)
def test_a_message_needs_two(comm):
    from collectives.measure_model import measure_models

    with pytest.raises(ValueError, match="comm: has 1 rank; a message needs 2"):
        measure_models(comm, ["python"])


@pytest.mark.ranks(3)
def test_all_that_can_be_had_is_tuned_and_checked(comm, monkeypatch):
    from collectives.allowance import Costs, Share
    from collectives.check_table import check
    from collectives.tune import Wanted, WantedError, tune

    monkeypatch.setattr("collectives.tune.measure_models", lambda *args, **kwargs: FITS)
    monkeypatch.setattr(Costs, "share", lambda self, sizes, *rest: Share(tuple(sizes), 3))
    wanted = Wanted((ALLTOALL, BARRIER), (24, 3072), budget=0.1)
    said, seen = [], []
    found = tune(comm, wanted, said.append, seen.append)
    assert bool(seen) == (comm.rank == 0)
    breakpoints = [s.breakpoints for s in found.sections]
    assert breakpoints == comm.bcast(breakpoints)
    cases = {(s.collective, s.placement, s.sizes) for s in found.sections}
    assert ("alltoall", "private", (24, 3072)) in cases
    assert ("barrier", "private", (24,)) in cases
    assert ("barrier", "window", (24,)) not in cases
    assert bool(said) == (comm.rank == 0)
    regrets = check(comm, found, wanted, said.append)
    assert min(r.ratio for r in regrets) >= 1
    assert {r.nbytes for r in regrets if r.collective == "alltoall"} == {192}
    with pytest.raises(WantedError, match="table: has none of bcast on 3 ranks with elements of 4"):
        check(comm, found, Wanted((BCAST,)))
    pytest.importorskip("numba")
    with pytest.raises(WantedError, match="needs one that runs schedules, native or python"):
        tune(comm, Wanted(executors=("shared",)))


@pytest.mark.ranks(2)
@pytest.mark.parametrize(("disturbed", "left"), [(0.0, 2), (0.4, 2), (0.9, 0)])
def test_a_machine_that_is_not_quiet_is_told(comm, monkeypatch, disturbed, left):
    from collectives import trials
    from collectives.allowance import Costs, Share
    from collectives.tune import Wanted, tune

    def measure(*args, **kwargs):
        found = trials_measure(*args, **kwargs)
        return [replace(timing, disturbed=disturbed, calm=False) for timing in found]

    trials_measure = trials.measure
    monkeypatch.setattr(trials, "measure", measure)
    monkeypatch.setattr("collectives.tune.has_own_cores", lambda comm: True)
    fits = {"python": FITS["python"]}
    monkeypatch.setattr("collectives.tune.measure_models", lambda *args, **kwargs: fits)
    monkeypatch.setattr(Costs, "share", lambda self, sizes, *rest: Share(tuple(sizes), 3))
    wanted = Wanted((BCAST, BARRIER), (8, 64), ("python",), ("private",), budget=0.1)
    said = []
    found = tune(comm, wanted, said.append)
    assert len(found.sections) == left
    told = [line for line in said if "the machine is not quiet" in line]
    if comm.rank or not disturbed:
        assert not told
        return
    part = f"in up to {100 * disturbed:.0f} % of the runs a rank lost its core to another program"
    then = "left out of the table" if not left else "only clear differences count"
    assert told[0] == f"bcast, private: the machine is not quiet: {part}: {then}"
    lost = "; left out of the table: bcast, private; barrier, private" if not left else ""
    assert told[-1] == f"the machine is not quiet: {part}{lost}; measure again when it is"
    assert len(told) == 3


@pytest.mark.ranks(3)
def test_ways_that_cannot_be_had_are_left_out(comm):
    from collectives.trials import Timer

    said = []
    timer = Timer(comm, ALLREDUCE, "private", "float32", said.append)
    ways = [Way("ring", "python"), Way("swing", "gpu"), Way("tree", "python")]
    for _ in range(2):
        found = timer.time(1000, ways, 0.05, 2, 5)
        assert [t.algorithm for t in found] == ["ring", "tree"]
        assert {t.bytes for t in found} == {1000}
        assert all(t.median_us > 0 for t in found)
        assert len({t.seconds.size for t in found}) == 1
    assert len(said) == 1
    assert said[0].startswith("left out: swing on gpu: ")
