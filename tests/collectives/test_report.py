"""The report of a program: what each call took, beside what is predicted or was measured."""

import re

import pytest

from collectives.collective import ALLREDUCE
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
        (2e-3, RING, SHORT),
    )
    tally.wait(3e-3)  # for the last one, which had only begun
    assert (tally.calls, tally.firsts) == (5, 2)
    assert tally.seconds == pytest.approx(12.009)
    assert tally.each == pytest.approx(9e-3 / 3)


def test_what_the_library_did_has_a_first_call_too():
    tally = counted((1.0, LIBRARY, None), (0.25, LIBRARY, None))
    assert tally.each == 0.25
    assert counted((1.0, LIBRARY, None)).each is None
    alone = counted((1.0, LIBRARY, None))
    alone.wait(2.0)
    assert (alone.seconds, alone.each) == (3.0, None)


def test_ranks_are_joined_by_the_largest_of_each_number():
    first = counted((9.0, RING, SHORT), (1e-3, RING, SHORT))
    other = counted((1.0, RING, SHORT), (4e-3, RING, SHORT), (2e-3, RING, SHORT))
    joined = merged([{SITE: first}, {SITE: other}])[SITE]
    assert joined.seconds == pytest.approx(9.001)
    assert joined.each == pytest.approx(3e-3)
    assert joined.calls == 3


def test_the_text_of_a_schedule():
    text = report_text({SITE: counted((2.0, RING, LONG), (3e-4, RING, LONG))})
    lines = text.splitlines()
    assert re.fullmatch(r" +2 s +2 +2097152  app.py:7 Allreduce", lines[-3])
    assert lines[-2].strip() == "done by ring (native) x2: 300 us each"
    price = min(predicted(ALLREDUCE, "direct", 2, 1 << 20, model) for model in MODELS.values())
    groups = re.fullmatch(r"model: (.*?) \(native\) (\S+) us; .*", lines[-1].strip())
    assert float(groups[2]) == pytest.approx(1e6 * price, rel=0.01)
    assert "rough ones" in text
    assert max(map(len, lines[:4])) <= 100


def test_the_text_of_what_shared_memory_did():
    text = report_text({SITE: counted((2.0, DIRECT, LONG))})
    assert "done by direct (shared) x1\n" in text
    assert text.endswith("(by messages; shared memory has no model)\n")


def test_the_text_of_what_a_table_has():
    text = report_text({SITE: counted((2.0, DIRECT, SHORT), (1e-3, DIRECT, LONG))}, made_table())
    # Each in the mean of both lengths: (2 + 4) / 2 and (1 + 9) / 2.
    assert text.endswith("table: ring (native) 3 us; direct (shared) 5 us\n")
    other = Shape("allreduce", 3, 1024)
    assert "model: " in report_text({SITE: counted((2.0, DIRECT, other))}, made_table())


def test_prices_are_means_of_the_calls():
    calls = counted((1.0, RING, SHORT), (1.0, RING, SHORT), (1.0, RING, LONG))
    found = {price.way.algorithm: price.seconds for price in predictions(calls.shapes)}
    assert set(found) == set(REGISTRY.names(ALLREDUCE))
    short, long = (
        predicted(ALLREDUCE, "ring", 2, s.nbytes, MODELS["native"]) for s in (SHORT, LONG)
    )
    assert found["ring"] == pytest.approx((2 * short + long) / 3)
    ways = measurements(calls.shapes, made_table())
    assert [way for way, _ in ways] == [RING, DIRECT]
    assert ways[0].seconds == pytest.approx((2 * 2e-6 + 4e-6) / 3)


def test_a_program_without_collectives():
    assert report_text({}) == "No collective on buffers was called.\n"
