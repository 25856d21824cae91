import re
from collections import defaultdict, deque

import numpy as np
import pytest

from collectives.collective import ALLTOALL, BARRIER
from collectives.goal import goal_lines
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.simulate import simulate
from collectives.step import Reduce, Send

from .algorithms import every_algorithm, made, named

MODEL = Model(latency=1e-6, byte_time=1e-9, reduce_time=2e-9)
OPERATION = re.compile(
    r"(l\d+): (?:(send) (\d+)b to (\d+) tag (\d+)|(recv) (\d+)b from (\d+) tag (\d+)|(calc) (\d+))"
)


def parse(lines):
    """Read GOAL as its scanner does: a statement a line, labels local to a rank."""
    ranks, rank, size = {}, None, None
    for line in lines:
        if not line or line.startswith("//"):
            continue
        if found := re.fullmatch(r"num_ranks (\d+)", line):
            size = int(found[1])
        elif found := re.fullmatch(r"rank (\d+) \{", line):
            rank = ranks[int(found[1])] = {}
        elif line == "}":
            rank = None
        elif found := re.fullmatch(r"(l\d+) requires (l\d+)", line):
            assert found[2] in rank, "a label is used before it is there"
            rank[found[1]]["requires"].append(found[2])
        else:
            label, *rest = OPERATION.fullmatch(line).groups()
            kind, *numbers = [part for part in rest if part is not None]
            assert label not in rank
            rank[label] = {"kind": kind, "numbers": [int(n) for n in numbers], "requires": []}
    assert sorted(ranks) == list(range(size))
    return ranks


def replay(ranks, model):
    """Run the operations when what they require is done; return when each rank has done all.

    A message is in place b G + L after the last that it requires, and sums are computed one after
    the other.
    """
    done = {r: {} for r in ranks}
    underway = defaultdict(deque)
    waiting = deque((r, label) for r in ranks for label in ranks[r])
    idle = 0
    while waiting:
        assert idle <= len(waiting), f"{waiting} wait for ever"
        r, label = waiting.popleft()
        op = ranks[r][label]
        ready = [done[r].get(other) for other in op["requires"]]
        key = None
        if op["kind"] == "recv":
            key = (op["numbers"][1], r, op["numbers"][2])
        if None in ready or (key is not None and not underway[key]):
            waiting.append((r, label))
            idle += 1
            continue
        idle = 0
        at = max(ready, default=0.0)
        if op["kind"] == "send":
            length, peer, tag = op["numbers"]
            at += length * model.byte_time
            underway[r, peer, tag].append((at + model.latency, length))
        elif key is not None:
            arrived, length = underway[key].popleft()
            assert length == op["numbers"][0]
            at = max(at, arrived)
        else:
            at += 1e-9 * op["numbers"][0]
        done[r][label] = at
    assert not any(underway.values()), "messages that nobody takes"
    return [max(done[r].values(), default=0.0) for r in ranks]


@every_algorithm
@pytest.mark.parametrize("p", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 5 * 6 * 7 * 8 * 4])
def test_all_messages_meet_and_bytes_are_those_of_the_simulation(algorithm, p, n):
    ranks = parse(goal_lines(algorithm, p, n, MODEL))
    replay(ranks, MODEL)
    done = simulate(algorithm, p, n, element_bytes=1)
    for r in range(p):
        sent = [op["numbers"][0] for op in ranks[r].values() if op["kind"] == "send"]
        assert len(sent) == done.messages[r]
        assert sum(sent) == done.nbytes[r]


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "recursive_doubling", "tree", "swing"])
@pytest.mark.parametrize("p", [2, 4, 8])
def test_replayed_it_takes_as_long_as_simulated(name, p):
    """A message a round each way, so that links and sums never wait."""
    n = 8 * 1000
    finish = replay(parse(goal_lines(named(name), p, n, MODEL)), MODEL)
    assert max(finish) == pytest.approx(simulate(named(name), p, n, MODEL).seconds, rel=1e-9)


def test_the_text_of_a_small_schedule():
    said = "\n".join(goal_lines(named("ring"), 2, 8, Model(reduce_time=1e-8)))
    assert (
        said
        == """\
// allreduce ring, 2 ranks, 8 bytes
num_ranks 2

rank 0 {
l1: send 4b to 1 tag 0
l2: recv 4b from 1 tag 0
l3: calc 40
l3 requires l2
l4: send 4b to 1 tag 1
l4 requires l1
l4 requires l3
l5: recv 4b from 1 tag 1
l5 requires l1
l5 requires l3
}

rank 1 {
l1: send 4b to 0 tag 0
l2: recv 4b from 0 tag 0
l3: calc 40
l3 requires l2
l4: send 4b to 0 tag 1
l4 requires l1
l4 requires l3
l5: recv 4b from 0 tag 1
l5 requires l1
l5 requires l3
}"""
    )


def test_several_steps_to_one_peer_are_one_message_and_own_data_is_none():
    def generate(rank, size):
        other = (rank + 1) % size
        yield [Send(other, 0), Send(other, 1), Reduce(other, 0), Reduce(other, 1)]
        yield [Send(rank, 0), Reduce(rank, 1)]

    ranks = parse(goal_lines(made(generate, blocks=lambda size: 2), 2, 64, Model(reduce_time=1e-9)))
    kinds = [(op["kind"], op["numbers"]) for op in ranks[0].values()]
    assert kinds == [("send", [64, 1, 0]), ("recv", [64, 1, 0]), ("calc", [64]), ("calc", [32])]
    assert ranks[0]["l4"]["requires"] == ["l1", "l3"]


def test_a_round_of_many_messages_has_few_requirements():
    direct = REGISTRY.get(ALLTOALL, "direct")
    lines = list(goal_lines(direct, 32, 32 * 32))
    assert len(lines) < 32 * (4 * 31 + 20)
    replay(parse(lines), MODEL)


def test_a_barrier_sends_a_byte_for_each_token():
    for name in REGISTRY.names(BARRIER):
        ranks = parse(goal_lines(REGISTRY.get(BARRIER, name), 4, 0))
        assert any(op["kind"] == "send" for op in ranks[1].values())


def test_cut_between_elements():
    sizes = {
        op["numbers"][0]
        for rank in parse(goal_lines(named("ring"), 3, 32, element_bytes=8)).values()
        for op in rank.values()
        if op["kind"] == "send"
    }
    assert sizes == {8, 16}
    with pytest.raises(ValueError, match="element_bytes=3: does not divide nbytes=32"):
        next(goal_lines(named("ring"), 3, 32, element_bytes=3))
    with pytest.raises(ValueError, match="size=0: needs at least 1 rank"):
        next(goal_lines(named("ring"), 0, 32))


@every_algorithm
@pytest.mark.parametrize(("p", "n"), [(5, 7), (7, 4), (4, 3)])
def test_what_is_sent_is_as_long_as_what_is_taken_or_refused(algorithm, p, n):
    """Parts of different lengths, some of them empty."""
    if algorithm.collective is ALLTOALL:
        with pytest.raises(ValueError, match=f"nbytes={n}: are {n} elements of 1 bytes, which {p}"):
            next(goal_lines(algorithm, p, n))
        with pytest.raises(ValueError, match="ranks do not divide"):
            simulate(algorithm, p, n, element_bytes=1)
    else:
        replay(parse(goal_lines(algorithm, p, n)), MODEL)
        assert simulate(algorithm, p, n, element_bytes=1).seconds > 0


def test_the_sum_of_all_sent_is_that_of_the_formula():
    p, n = 12, 12 * 64
    sent = [
        sum(op["numbers"][0] for op in rank.values() if op["kind"] == "send")
        for rank in parse(goal_lines(named("ring"), p, n)).values()
    ]
    assert np.array(sent) == pytest.approx(2 * n * (p - 1) / p)
