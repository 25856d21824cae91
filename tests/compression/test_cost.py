"""Which route is taken: by hand-made figures."""

import numpy as np
import pytest

from hpcdl.compression import QSGD, ErrorFeedback, Float16, TopK
from hpcdl.compression.cost import choose_route, slot_bytes, wire_bytes


def test_bytes():
    # 1,000,000 float32 on 4 ranks: 4-bit codes and a scale for every 512, in slots of 8 bytes.
    sent = wire_bytes(QSGD(4), 1_000_000, np.float32, 4)
    assert sent["dense"] == 2 * 3 / 4 * 4_000_000
    assert sent["gather"] == 3 * 507_816  # 1954 scales, 500,000 bytes of codes
    assert sent["reencode"] == 2 * 3 * 126_960  # 489 scales, 125,000 bytes: 126,956
    assert "sum" not in sent
    assert wire_bytes(Float16(), 1_000_000, np.float32, 4)["sum"] == 2 * 3 / 4 * 2_000_000


def test_slots_are_aligned():
    assert [slot_bytes(QSGD(4), n, np.float32) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]


@pytest.mark.parametrize(
    ("codec", "size", "route"),
    [
        (None, 4, "dense"),
        (QSGD(4), 1, "dense"),
        (QSGD(4), 2, "gather"),  # as many bytes as reencode, and rounded once
        (QSGD(4), 3, "reencode"),
        (QSGD(4), 8, "reencode"),
        (ErrorFeedback(QSGD(4)), 8, "reencode"),
        (Float16(), 8, "sum"),
        (TopK(0.01), 8, "gather"),
        (TopK(0.249), 4, "gather"),  # the break-even is a density of 1/P
        (TopK(0.251), 4, "dense"),
        (TopK(0.124), 8, "gather"),
        (ErrorFeedback(TopK(0.126)), 8, "dense"),
    ],
)
def test_choice(codec, size, route):
    choice = choose_route(codec, 1_000_000, np.float32, size)
    assert choice.route == route
    assert bool(choice.note) == (codec is not None and route == "dense")


def test_the_note_has_the_figures():
    note = choose_route(TopK(0.5), 1000, np.float32, 4).note
    assert "TopK(density=0.5) is not used" in note
    assert "12000 bytes" in note  # 3 x 500 x 8
    assert note.endswith("needs 6000")  # 2 x 3/4 x 4000
    assert choose_route(TopK(0.5), 1000, np.float32, 1).note.endswith("one rank sends nothing")


def test_a_route_can_be_forced():
    for route in ("dense", "gather", "reencode"):
        assert choose_route(TopK(0.9), 10, np.float32, 4, route).route == route
    with pytest.raises(ValueError, match=r"route='sum': TopK\(density=0.9\) is not summable"):
        choose_route(TopK(0.9), 10, np.float32, 4, "sum")
    with pytest.raises(ValueError, match="route='ring': needs one of auto, dense, gather"):
        choose_route(TopK(0.9), 10, np.float32, 4, "ring")
    with pytest.raises(ValueError, match="route='gather': needs a codec"):
        choose_route(None, 10, np.float32, 4, "gather")
