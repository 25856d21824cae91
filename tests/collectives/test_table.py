import os
import pickle
import stat

import pytest

from collectives.fit import Fit
from collectives.model import Model
from collectives.table import Section, Table, Way, breakpoints_of
from collectives.table_reader import MAX_BYTES, TableError
from collectives.table_writer import text_of

SIZES = (8, 1024, 1 << 20)
TIMES = {
    Way("recursive_doubling", "native"): (5.125e-6, 9e-6, 900e-6),
    Way("chain:segments=16", "python"): (9e-6, 8e-6, 300e-6),
    Way("direct", "shared"): (6e-6, 6e-6, 200e-6),
}
FIT = Fit(Model(1e-6, 2e-10, 3e-11, 4e-7, 5e-7), 0.0625, {"latency": (9e-7, 1.1e-6)})


def section(**values):
    given = {
        "collective": "allreduce",
        "ranks": 4,
        "placement": "private",
        "itemsize": 4,
        "sizes": SIZES,
        "seconds": TIMES,
        "breakpoints": breakpoints_of(SIZES, TIMES),
    }
    return Section(**(given | values))


def table(**values):
    given = {
        "machine": 'a "machine"\\ with \n odd \x7f letters, é',
        "mpi": "MPICH 5.0.2",
        "date": "2026-01-01T00:00:00+00:00",
        "fits": {"native": FIT},
        "sections": (section(), section(itemsize=8, placement="window")),
    }
    return Table(**(given | values))


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "table.toml"
    written = table()
    written.save(path)
    found = Table.load(path)
    assert (found.machine, found.mpi, found.date) == (written.machine, written.mpi, written.date)
    assert dict(found.fits) == {"native": FIT}
    assert len(found.sections) == 2
    for one, other in zip(found.sections, written.sections, strict=True):
        assert (one.collective, one.ranks) == ("allreduce", 4)
        assert (one.placement, one.itemsize) == (other.placement, other.itemsize)
        assert one.sizes == SIZES
        assert list(one.seconds) == list(TIMES)
        for way, times in TIMES.items():
            assert one.seconds[way] == pytest.approx(times)
        assert [b[:2] for b in one.breakpoints] == [b[:2] for b in other.breakpoints]
    assert pickle.loads(pickle.dumps(found)).mpi == "MPICH 5.0.2"
    again = tmp_path / "again.toml"
    found.save(again)
    assert again.read_text() == path.read_text()


def test_a_table_may_lack_models_or_sections(tmp_path):
    path = tmp_path / "table.toml"
    table(fits={}).save(path)
    found = Table.load(path)
    assert (found.fits, len(found.sections)) == ({}, 2)
    table(sections=()).save(path)
    found = Table.load(path)
    assert (set(found.fits), found.sections) == ({"native"}, ())


def test_a_link_to_a_table_stays_a_link(tmp_path):
    link, target = tmp_path / "link.toml", tmp_path / "table.toml"
    link.symlink_to(target)
    table().save(link)
    table(machine="another").save(link)
    assert link.is_symlink()
    assert Table.load(target).machine == "another"


def test_the_whole_file_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "table.toml"
    table().save(path)
    before = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def fails(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="No space left"):
        table(machine="another").save(path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_section_for_a_call():
    one, other = (section(itemsize=n) for n in (2, 8))
    found = table(sections=(one, other))
    assert found.find("allreduce", 4, "private", 2, 8) is one
    assert found.find("allreduce", 4, "private", 8, 8) is other
    assert found.find("allreduce", 4, "private", 1, 8) is one
    assert found.find("allreduce", 4, "private", 16, 8) is other
    for case in (("reduce", 4, "private"), ("allreduce", 3, "private"), ("allreduce", 4, "window")):
        assert found.find(*case, 4, 8) is None


def test_a_section_tells_nothing_of_lengths_far_beyond_its_ends():
    def covered(sizes, collective="allreduce"):
        times = {Way("ring", "native"): (1e-6,) * len(sizes)}
        one = Section(collective, 2, "private", 4, sizes, times, breakpoints_of(sizes, times))
        return [n for n in (0, 8, 1 << 11, 1 << 12, 1 << 20, 1 << 21, 1 << 22) if one.covers(n)]

    assert covered((8, 1 << 20)) == [0, 8, 1 << 11, 1 << 12, 1 << 20, 1 << 21]
    assert covered((64,)) == [0, 8]
    assert covered((1 << 12,)) == [1 << 11, 1 << 12]
    assert len(covered((1 << 12,), "barrier")) == 7


def test_the_mpi_it_was_measured_with(tmp_path):
    path = tmp_path / "table.toml"
    table().save(path)
    assert Table.load(path, "MPICH 5.0.2")
    with pytest.raises(TableError, match=r"table.toml: mpi: was measured with MPICH 5.0.2, and th"):
        Table.load(path, "Open MPI 5.0.11")


def broken(old, new):
    text = text_of(table())
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "format: is no 'collectives tuning table'"),
        ("[run]\nsteps = 3", "format: is no 'collectives tuning table'"),
        ("format = [[[", "line 1: not TOML, or cut short: Invalid value"),
        (text_of(table())[:700], r"line \d\d: not TOML, or cut short: Untermin"),
        (broken("version = 1", "version = "), r"not TOML, or cut short: .*line 4"),
        ("format = " + "[" * 100_000, "lists are nested too deeply"),
        ("format = " + "9" * 100_000, "a value cannot be read"),
        (broken("version = 1", "version = 2"), "version: is 2; this library reads 1"),
        (broken("version = 1", "version = 0x" + "f" * 9999), "version: is a number of thousands"),
        (broken("mpi = ", "m = "), "mpi: is missing"),
        (broken('mpi = "MPICH 5.0.2"', "mpi = 5"), "mpi: is 5; needs a text"),
        (
            broken("[model.native]", "[model.fast]"),
            "model.fast: is 'fast'; is one of native, python",
        ),
        (
            broken("latency = 1e-06", "latency = -1"),
            r"model.native.latency: is -1; needs a number, 0 to 1e\+15",
        ),
        (broken("latency = 1e-06", "latency = nan"), "model.native.latency: is nan"),
        (
            broken("latency = 1e-06", "latency = 1" + "0" * 400),
            r"model.native.latency: is 1000+\.\.\.; needs a number, 0 to",
        ),
        (broken("latency = 1e-06", "latency = true"), "model.native.latency: is True"),
        (broken("latency = 1e-06", ""), "model.native.latency: is None"),
        (
            broken("[9e-07, 1.1e-06]", "[9e-07]"),
            r"latency_interval: is \[9e-07\]; needs two numbers",
        ),
        (
            broken('"allreduce"', '"allredcue"'),
            r"section\[0\].collective: is 'allredcue'; is one of",
        ),
        (broken("ranks = 4", "ranks = 0"), r"section\[0\].ranks: is 0; needs a whole number, 1 to"),
        (broken("ranks = 4", "ranks = 4.0"), r"section\[0\].ranks: is 4.0; needs a whole number"),
        (broken("ranks = 4", "ranks = true"), r"section\[0\].ranks: is True; needs a whole number"),
        (
            broken('"private"', '"cloud"'),
            r"section\[0\].placement: is 'cloud'; is one of private, w",
        ),
        (broken("bytes = [8,", "bytes = [9000,"), r"section\[0\].bytes: is .*; needs ascending"),
        (broken("bytes = [8, 1024, 1048576]", "bytes = []"), r"bytes: is \[\]; needs at least one"),
        (broken("[5.125, 9, 900]", "[5.125, 9]"), r"measured\[0\].us: is .*; needs 3 numbers, as"),
        (
            broken("[5.125, 9, 900]", "[0, 9, 900]"),
            r"measured\[0\].us\[0\]: is 0; needs a number, 1e-15 to 1e\+15",
        ),
        (
            broken("[5.125, 9, 900]", "[5e-324, 9, 900]"),
            r"measured\[0\].us\[0\]: is 5e-324; needs a number, 1e-15 to",
        ),
        (broken("version = 1", "version = true"), "version: is True; this library reads 1"),
        (
            broken("itemsize = 8", "itemsize = 4").replace('"window"', '"private"'),
            r"section\[1\]: is \['allreduce', 4, 'private', 4\]; section\[0\] has that",
        ),
        (
            broken(
                '{ algorithm = "direct", executor = "shared", us = [',
                '{ algorithm = "chain:segments=16", executor = "python", us = [',
            ),
            r"section\[0\].measured\[2\]: is \['chain:segments=16', 'python'\]; stands there twice",
        ),
        (
            broken('algorithm = "direct"', 'algorithm = "ring"'),
            r"algorithm: is 'ring'; on shared it is direct",
        ),
        (
            broken("chain:segments=16", "a" * 5000),
            r"algorithm: is 'aaa+\.\.\.; is longer than 100 letters",
        ),
        (broken("[5.125, 9, 900]", "7"), r"section\[0\].measured\[0\].us: is 7; needs a list"),
        (
            broken('algorithm = "recursive_doubling"', 'algorithm = "quick"'),
            r"section\[0\].choice\[0\].algorithm='quick': allreduce has no such algorithm",
        ),
        (
            broken("chain:segments=16", "chain:segments=999999999999"),
            r"segments=999999999999: needs at most 65536",
        ),
        (
            broken('executor = "native"', 'executor = "gpu"'),
            r"executor: is 'gpu'; is one of native",
        ),
        (
            broken("choice = [\n", "choice = [ 3,\n"),
            r"section\[0\].choice\[0\]: is 3; needs a table",
        ),
        (
            broken('algorithm = "recursive_doubling"', 'algorithm = "ring"'),
            r"section\[0\].choice\[0\]: is .*; is not among those in section\[0\].measured",
        ),
    ],
)
def test_a_file_that_is_no_table(tmp_path, text, message):
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=rf"^\S+table.toml: .*{message}") as caught:
        Table.load(path)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TableError, match="pipe: is a pipe; needs a file"):
        Table.load(tmp_path / "pipe")
    with pytest.raises(TableError, match=r"no\.toml: cannot be read: No such file or directory"):
        Table.load(tmp_path / "no.toml")
    with pytest.raises(TableError, match="cannot be read: Is a directory"):
        Table.load(tmp_path)
    path = tmp_path / "table.toml"
    path.write_bytes(b'format = "a"\nmpi = "\xff"\n')
    with pytest.raises(TableError, match=r"table\.toml: line 2: not UTF-8 text"):
        Table.load(path)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(TableError, match="is longer than 4 MiB, so no tuning table"):
        Table.load(path)
