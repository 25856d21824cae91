"""The report of a program: what each call took, beside what is predicted or was measured."""

import re

import pytest

from collectives.collective import ALLREDUCE, COLLECTIVES
from collectives.intracomm.forms import can_take
from collectives.intracomm.report import Shape, Site, Tally, Way, merged
from collectives.intracomm.report_text import measurements, predictions, report_text
from collectives.registry import REGISTRY
from collectives.select import MODELS, predicted
from collectives.table import Section, Table, breakpoints_of
from collectives.table import Way as TableWay

SITE = Site("app.py", 7, "Allreduce")
RING, DIRECT, LIBRARY = Way("ring", "native"), Way("direct", "shared"), Way("library", "")
SHORT, LONG = Shape("allreduce", 2, 1024), Shape("allreduce", 2, 1 << 20)


def counted(*calls):
    tally = Tally()
    for seconds, way, shape in calls:
        tally.add(seconds, way, shape)
    return tally


def made_table():
    measured = {
        TableWay("ring", "native"): (2e-6, 4e-6),
        TableWay("direct", "shared"): (1e-6, 9e-6),
    }
    sizes = (1024, 1 << 20)
    section = Section(
        "allreduce", 2, "private", 4, sizes, measured, breakpoints_of(sizes, measured)
    )
    return Table("machine", "MPI 1.0", "2026-01-01", {}, (section,))


def test_the_first_call_of_each_length_is_counted_apart():
    tally = counted(
        (5.0, RING, SHORT),
        (1e-3, RING, SHORT),
        (7.0, RING, LONG),
        (3e-3, RING, LONG),
    )
    waited = tally.add(2e-3, RING, SHORT)
    waited(4e-3)  # for this call, which had only begun
    assert (tally.calls, tally.nbytes) == (5, 3 * 1024 + 2 * (1 << 20))
    assert (tally.first_seconds, tally.first) == (12, {SHORT: 5, LONG: 7})
    assert tally.seconds == pytest.approx(0.010)
    assert tally.each(SHORT) == pytest.approx((1e-3 + 6e-3) / 2)
    assert tally.each(LONG) == pytest.approx(3e-3)


def test_a_wait_belongs_to_its_call():
    tally = Tally()
    first = tally.add(1.0, LIBRARY, SHORT)
    second = tally.add(0.25, LIBRARY, SHORT)
    first(8.0)
    assert tally.each(SHORT) == 0.25
    second(0.5)
    assert (tally.first_seconds, tally.seconds, tally.each(SHORT)) == (9, 0.75, 0.75)
    alone = Tally()
    alone.add(1.0, LIBRARY, None)(2.0)
    assert (alone.first_seconds, alone.seconds, alone.each(None)) == (3.0, 0, None)
    assert (alone.nbytes, alone.first) == (0, {None: 3.0})


def test_ranks_are_joined_by_the_largest_of_each_number():
    first = counted((9.0, RING, SHORT), (1e-3, RING, SHORT))
    other = counted((1.0, RING, SHORT), (4e-3, RING, SHORT), (2e-3, RING, SHORT))
    joined = merged([{SITE: first}, {SITE: other}])[SITE]
    assert (joined.first_seconds, joined.first[SHORT]) == (9.0, 9.0)
    assert joined.seconds == pytest.approx(6e-3)
    assert joined.each(SHORT) == pytest.approx(3e-3)
    assert (joined.calls, joined.nbytes) == (3, 3 * 1024)


def test_lengths_are_those_of_the_rank_that_knows_all():
    part, whole = Shape("gather", 3, 8), Shape("gather", 3, 100)
    joined = merged(
        [{SITE: counted((1.0, RING, shape), (2.0, RING, shape))} for shape in (part, whole, part)]
    )[SITE]
    assert (dict(joined.shapes), joined.nbytes, joined.each(whole)) == ({whole: 2}, 200, 2.0)


def test_the_text_of_a_schedule():
    text = report_text({SITE: counted((2.0, RING, LONG), (3e-4, RING, LONG))})
    lines = text.splitlines()
    assert re.fullmatch(r" +2 s +300 us +2 +2097152  app.py:7 Allreduce", lines[-3])
    assert lines[-2].strip() == "done by ring (native) x2: first 2 s, then 300 us each"
    price = min(predicted(ALLREDUCE, "direct", 2, 1 << 20, model) for model in MODELS.values())
    groups = re.fullmatch(r"model: (.*?) \(native\) (\S+) us; .*", lines[-1].strip())
    assert float(groups[2]) == pytest.approx(1e6 * price, rel=0.01)
    assert "\nmodel: what rough models of messages say" in text
    assert max(map(len, lines[:-3])) <= 100


def test_the_text_of_what_shared_memory_did():
    text = report_text({SITE: counted((2.0, DIRECT, LONG))})
    assert "done by direct (shared) x1: first 2 s\n" in text
    assert text.endswith("(by messages; shared memory has no model)\n")


def test_the_text_of_what_a_table_has():
    text = report_text({SITE: counted((2.0, DIRECT, SHORT))}, made_table())
    assert text.endswith("table: direct (shared) 1 us; ring (native) 2 us\n")
    assert "\ntable: what it has measured (MPI 1.0, 2026-01-01), on private buffers.\n" in text
    assert "\nmodel: where the table has no such case;" in text
    other = Shape("allreduce", 3, 1024)
    assert "model: " in report_text({SITE: counted((2.0, DIRECT, other))}, made_table())


def test_the_text_of_several_lengths():
    shapes = [Shape("allreduce", 2, n) for n in (8, 1024, 16, 1 << 20)]
    tally = counted(*((seconds, RING, s) for s in shapes for seconds in (1.0, s.nbytes * 1e-6)))
    lines = [line.strip() for line in report_text({SITE: tally}).splitlines()[-8:]]
    assert lines[0] == "done by ring (native) x8"
    assert lines[1] == "1048576 bytes x2: first 1 s, then 1.05 s each"
    assert lines[3] == "1024 bytes x2: first 1 s, then 1.02 ms each"
    assert lines[5] == "16 bytes x2: first 1 s, then 16 us each"
    assert all(line.startswith("model: ") for line in lines[2:7:2])
    assert lines[7] == "and 1 other length"
    table = [
        line.strip()
        for line in report_text(
            {SITE: counted((1.0, RING, SHORT), (1.0, RING, LONG))}, made_table()
        ).splitlines()
    ]
    assert table[-4:] == [
        "1024 bytes x1: first 1 s",
        "table: direct (shared) 1 us; ring (native) 2 us",
        "1048576 bytes x1: first 1 s",
        "table: ring (native) 4 us; direct (shared) 9 us",
    ]


def test_the_text_where_there_is_nothing_to_predict():
    alone = Shape("allreduce", 1, 1024)
    assert report_text({SITE: counted((1.0, RING, alone))}).endswith(
        "done by ring (native) x1: first 1 s\n"
        + " " * 45
        + "one rank alone: there is nothing to send\n"
    )
    unread = report_text({SITE: counted((1.0, LIBRARY, None))})
    assert unread.endswith("done by the library x1: first 1 s\n")
    assert report_text({SITE: Tally()}).endswith("no Start was seen\n")


def test_rows_are_in_the_order_of_what_is_not_first():
    late = Site("app.py", 9, "Bcast")
    text = report_text(
        {
            SITE: counted((9.0, RING, SHORT), (1e-3, RING, SHORT)),
            late: counted((0.1, RING, SHORT), (2e-3, RING, SHORT)),
        }
    )
    assert text.index("app.py:9 Bcast") < text.index("app.py:7 Allreduce")


def test_a_form_is_compared_with_what_it_can_take():
    site = Site("app.py", 7, "Iallreduce")
    text = report_text({site: counted((2.0, RING, SHORT))}, made_table())
    assert text.endswith(" table: ring (native) 2 us\n")
    persistent = Site("app.py", 7, "Allreduce_init")
    text = report_text({persistent: counted((2.0, RING, SHORT))}, made_table())
    assert "direct (shared)" in text
    for call, collective, algorithms in (
        ("Alltoallv", "alltoall", {"direct", "pairwise"}),
        ("Ialltoallv", "alltoall", {"direct", "pairwise"}),
        ("Alltoall", "alltoall", {"direct", "pairwise", "bruck"}),
        ("Gatherv", "gather", {"linear"}),
        ("Scatterv_init", "scatter", {"linear"}),
        ("Allgatherv", "allgather", {*REGISTRY.names(COLLECTIVES["allgather"])}),
    ):
        shape = Shape(collective, 4, 1024)
        ways = [price.way for price in predictions(shape)]
        assert {w.algorithm for w in ways if can_take(call, shape, w)} == algorithms
        shared = call in ("Alltoall", "Allgatherv")
        assert can_take(call, shape, DIRECT) == shared


def test_all_algorithms_and_lengths_are_shown_where_they_are_wished():
    shapes = [Shape("allreduce", 2, n) for n in (8, 1024, 16, 1 << 20)]
    sites = {SITE: counted(*((1.0, RING, s) for s in shapes))}
    short, long = (report_text(sites, every=every) for every in (False, True))
    assert "\nmore, slower, other lengths: --all shows them.\n" in short
    assert "and 1 other length\n" in short
    assert re.search(r"; \d+ slower\n", short)
    assert "--all" not in long
    assert not re.search(r"\d (more|slower|other)", long)
    one = long[long.index("1048576 bytes x1") :].split("bytes x1")[1]
    prices = re.findall(r"^ +(?:model: )?(\w.*) \(native\) (\S+) us$", one, re.MULTILINE)
    assert sorted(", ".join(names for names, _ in prices).split(", ")) == sorted(
        REGISTRY.names(ALLREDUCE)
    )
    assert [float(us) for _, us in prices] == sorted({float(us) for _, us in prices})


def test_the_text_where_ranks_share_cores():
    sites = {SITE: counted((1.0, RING, SHORT))}
    assert "more ranks than cores" in report_text(sites, own_cores=False)
    assert "more ranks than cores" not in report_text(sites)


def test_prices_are_those_of_the_length():
    found = {price.way.algorithm: price.seconds for price in predictions(LONG)}
    assert set(found) == set(REGISTRY.names(ALLREDUCE))
    assert found["ring"] == predicted(ALLREDUCE, "ring", 2, 1 << 20, MODELS["native"])
    assert measurements(LONG, made_table()) == [(RING, 4e-6), (DIRECT, 9e-6)]


def test_a_program_without_collectives():
    assert report_text({}) == "No collective on buffers was called.\n"
