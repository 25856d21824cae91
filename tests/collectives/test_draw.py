import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from collectives.collective import (
    ALLGATHER,
    ALLREDUCE,
    ALLTOALL,
    BCAST,
    REDUCE_SCATTER,
    SCATTER,
)
from collectives.draw import MAX_CELLS, MAX_MESSAGES, draw_svg, draw_text
from collectives.messages import messages_of
from collectives.step import NULL, Recv, Reduce, Send

from .algorithms import every_algorithm, made, named

SVG = "{http://www.w3.org/2000/svg}"


def groups(svg, *classes):
    """The groups of a drawing that have all of these classes."""
    root = ElementTree.fromstring(svg)
    return [g for g in root.iter(f"{SVG}g") if set(classes) <= set(g.get("class", "").split())]


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_an_arrow_for_each_message(algorithm, p):
    svg = draw_svg(algorithm, p)
    _, messages = messages_of(algorithm, p)
    wire = [m for m in messages if m.source != m.target]
    assert len(groups(svg, "message")) == len(wire)
    assert len(groups(svg, "message", "reduce")) == sum(m.reduced for m in wire)
    assert len(groups(svg, "message", "recv")) == sum(not m.reduced for m in wire)
    assert len(groups(svg, "copy")) == len(messages) - len(wire)


def test_arrows_lead_from_the_row_of_the_sender_to_that_of_the_receiver():
    svg = draw_svg(named("ring"), 4)
    root = ElementTree.fromstring(svg)
    rows = sorted(
        {float(line.get("y1")) for line in root.iter(f"{SVG}line") if line.get("class") == "life"}
    )
    assert len(rows) == 4
    starts = set()
    for arrow in groups(svg, "message"):
        tip = arrow.find(f"{SVG}title").text
        k, source, target = map(
            int, re.search(r"round (\d): rank (\d) sends .* to rank (\d)", tip).groups()
        )
        line = arrow.find(f"{SVG}line")
        assert float(line.get("y1")) == rows[source]
        assert float(line.get("y2")) == rows[target]
        assert float(line.get("x1")) < float(line.get("x2"))
        starts.add((k, float(line.get("x1"))))
    assert len(starts) == 6  # all of a round start together
    assert sorted(starts) == sorted(starts, key=lambda s: s[1])


def test_labels_name_the_blocks():
    svg = draw_svg(named("rabenseifner"), 4)
    labels = [g.find(f"{SVG}text").text for g in groups(svg, "label")]
    # Halving: ranks 0 and 2 give the upper half, 1 and 3 the lower one; then 0 and 1 give an odd
    # block, 2 and 3 an even one. Doubling takes the same way back.
    halving = ["2-3", "0-1", "2-3", "0-1", "1", "3", "0", "2"]
    doubling = ["0", "2", "1", "3", "0-1", "2-3", "0-1", "2-3"]
    assert labels == halving + doubling


def test_one_label_for_all_blocks_of_a_message():
    def generate(rank, size):
        blocks = [5, 0, 1, 3] if size == 2 else range(0, 40, 2)
        yield [Send(1, b) if rank == 0 else Recv(0, b) for b in blocks if rank < 2]

    for size, label in ((2, "5,0-1,3"), (3, "20 blocks")):
        svg = draw_svg(made(generate, ALLREDUCE, lambda size: 40), size)
        assert [g.find(f"{SVG}text").text for g in groups(svg, "label")] == [label]


def test_labels_of_one_rank_and_round_do_not_overlap():
    def generate(rank, size):
        yield [Send(r, r) for r in range(1, 4)] if rank == 0 else [Reduce(0, rank)]

    svg = draw_svg(made(generate, ALLREDUCE), 4)
    tops = sorted(float(g.find(f"{SVG}rect").get("y")) for g in groups(svg, "label"))
    assert len(tops) == 3
    assert min(b - a for a, b in pairwise(tops)) >= 16


def test_messages_of_the_same_blocks_share_a_label():
    svg = draw_svg(named("linear", SCATTER), 4)
    assert [g.find(f"{SVG}text").text for g in groups(svg, "label")] == ["1", "2", "3"]
    svg = draw_svg(named("direct", ALLGATHER), 7)
    assert [g.find(f"{SVG}text").text for g in groups(svg, "label")] == list("0123456")


def test_many_messages_share_a_label_with_all_their_blocks():
    svg = draw_svg(named("direct", REDUCE_SCATTER), 6)
    labels = [g.find(f"{SVG}text").text for g in groups(svg, "label")]
    assert labels == ["1-5", "0,2-5", "0-1,3-5", "0-2,4-5", "0-3,5", "0-4"]
    starts = {line.get("x1") for g in groups(svg, "message") for line in g.iter(f"{SVG}line")}
    assert len(starts) == len(set(map(len, labels)))  # all of a rank begin at its label


def test_everything_lies_inside_the_picture():
    for algorithm, p in ((named("ring"), 9), (named("binomial", BCAST), 2), (named("tree"), 1)):
        root = ElementTree.fromstring(draw_svg(algorithm, p))
        width, height = float(root.get("width")), float(root.get("height"))
        assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
        for line in root.iter(f"{SVG}line"):
            assert 0 <= float(line.get("x1")) <= float(line.get("x2")) <= width
            assert 0 <= float(line.get("y2")) <= height


def test_the_title_says_what_it_is():
    root = ElementTree.fromstring(draw_svg(named("ring"), 8))
    words = [t.text for t in root.iter(f"{SVG}text")]
    assert words[0] == "allreduce: ring, 8 ranks"
    assert words[1] == "14 rounds, 112 messages, 8 blocks (Patarasuk & Yuan 2009)"
    assert "added to the receiver's block" in words
    assert "stored in the receiver's block" in words
    assert [w for w in words if w.startswith("rank")] == [f"rank {r}" for r in range(8)]
    assert [w for w in words if w.startswith("round")] == [f"round {k}" for k in range(14)]


def test_where_a_block_is_stored_is_told_where_it_has_another_number():
    bruck = named("bruck", ALLTOALL)
    root = ElementTree.fromstring(draw_svg(bruck, 8))
    words = [t.text for t in root.iter(f"{SVG}text")]
    # A message for each rank in each of lg 8 rounds; each rank keeps one block.
    assert (
        words[1] == "3 rounds, 24 messages and 8 copies inside ranks, 24 blocks (Bruck et al. 1997)"
    )
    assert words[-1].startswith(
        "blocks 0-7: for rank 0-7; 8-15: from rank 0-7; 16-23: on their way."
    )
    tips = [t.text for t in root.iter(f"{SVG}title")]
    # What goes one rank on is there. What has one more hop to go waits in scratch, and what has two
    # more where block 8 + (1 - 7) mod 8 will come in the end.
    assert "round 0: rank 0 sends blocks 1,3,5,7 to rank 1, which stores it in 8,19,21,10" in tips
    assert "round 0: rank 2 sends block 2 to itself, and stores it in 10" in tips
    lines = draw_text(bruck, 4).splitlines()
    assert lines[3] == "blocks 0-3: for rank 0-3; 4-7: from rank 0-3; 8-11: on their way"
    assert "1 ->3 [3,11>5,4]" in lines[-1]


@pytest.mark.parametrize("draw", [draw_svg, draw_text])
def test_too_many_messages_are_refused(draw):
    draw(named("ring"), 45)  # 2 p (p - 1) = 3960
    with pytest.raises(ValueError, match=f"size=46: .* more than {MAX_MESSAGES} messages"):
        draw(named("ring"), 46)


def test_a_picture_that_is_too_long_is_refused():
    def generate(rank, size):
        for _ in range(10**9):
            yield [Send(NULL, 0)]

    with pytest.raises(ValueError, match=f"size=2: .* more than {MAX_CELLS} ranks times rounds"):
        draw_svg(made(generate, ALLREDUCE, lambda size: 1), 2)


def test_text():
    assert draw_text(named("ring"), 3).splitlines() == [
        "allreduce: ring, 3 ranks",
        "4 rounds, 12 messages, 3 blocks (Patarasuk & Yuan 2009)",
        "a ->b [c] +  rank a sends block c to rank b, which adds it; = which stores it",
        "",
        "round 0:  0 ->1 [2] +   1 ->2 [0] +   2 ->0 [1] +",
        "round 1:  0 ->1 [1] +   1 ->2 [2] +   2 ->0 [0] +",
        "round 2:  0 ->1 [0] =   1 ->2 [1] =   2 ->0 [2] =",
        "round 3:  0 ->1 [2] =   1 ->2 [0] =   2 ->0 [1] =",
    ]


@every_algorithm
@pytest.mark.parametrize("p", [1, 4, 7])
def test_the_text_has_all_messages(algorithm, p):
    rounds, messages = messages_of(algorithm, p)
    lines = draw_text(algorithm, p).splitlines()
    lines = lines[lines.index("") + 1 :]
    assert len(lines) == rounds
    assert sum(line.count("->") for line in lines) == len(messages)
    assert sum(line.count("+") for line in lines) == sum(m.reduced for m in messages)


def test_an_alltoall_shows_what_stays():
    assert len(groups(draw_svg(named("pairwise", ALLTOALL), 5), "copy")) == 5
