import io
import re

import pytest

from collectives import __main__ as cli
from collectives.collective import ALLREDUCE, REDUCE
from collectives.commands.rounds import RoundsShown, rounds_of
from collectives.model import Model
from collectives.noise import Noise
from collectives.registry import REGISTRY
from collectives.simulate import simulate
from collectives.topology import Topology

from .algorithms import named
from .test_goal import parse


def said(capsys, words):
    assert cli.main(["simulate", *words.split()]) == 0
    return capsys.readouterr().out


def seconds(text):
    value, unit = re.search(r"^time +(\S+) (\S+)", text, re.MULTILINE).groups()
    return float(value) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def close(value):
    return pytest.approx(value, rel=1e-5)


def test_nodes(capsys):
    text = said(
        capsys,
        "ring -n 12 --bytes 64K --nodes 3 --latency 300ns --bandwidth 20 --latency-between 3us "
        "--bandwidth-between 2 --overhead-between 1us --gap-between 2us",
    )
    within = Model(3e-7, 1e-9 / 20, 1e-10)
    topology = Topology(4, within, Model(3e-6, 5e-10, 1e-10, 1e-6, 2e-6))
    assert seconds(text) == close(simulate(named("ring"), 12, 65536, topology).seconds)
    assert "inside       latency L 300 ns, bandwidth 1/G 20 GB/s, sums 1/c 10 GB/s, " in text
    assert "overhead o 0 ns, gap g 0 ns\n" in text
    assert (
        "between      latency L 3 us, bandwidth 1/G 2 GB/s, overhead o 1 us, gap g 2 us\n" in text
    )
    assert "nodes        3 of 4 ranks\n" in text
    assert "closed form  none: it is for equal ranks and links, without noise\n" in text
    cyclic = said(capsys, "ring -n 12 --bytes 64K --nodes 3 --bandwidth-between 2 --cyclic")
    assert "nodes        3 of 4 ranks, in turns\n" in cyclic
    uneven = said(capsys, "ring -n 60 --bytes 64K --nodes 7")
    assert "nodes        7: 6 of 9 ranks, 1 of 6\n" in uneven
    dealt = said(capsys, "ring -n 60 --bytes 64K --nodes 7 --cyclic")
    assert "nodes        7: 4 of 9 ranks, 3 of 8, in turns\n" in dealt


def test_costs_between_nodes_are_as_inside_by_default(capsys):
    text = said(capsys, "tree -n 8 --bytes 1K --nodes 8 --latency 5us")
    assert seconds(text) == close(seconds(said(capsys, "tree -n 8 --bytes 1K --latency 5us")))


def test_noise_and_runs(capsys):
    text = said(capsys, "ring -n 8 --bytes 8K --noise 5us:pareto --interrupt 1ms:0.1 --seed 3")
    noise = Noise(5e-6, 1e-3, 0.1, "pareto", 3)
    assert seconds(text) == close(simulate(named("ring"), 8, 8192, noise=noise).seconds)
    assert "noise        pareto: messages are late by 5 us in the mean\n" in text
    assert (
        "interrupts   pareto: ranks are held up for 1 ms in the mean, each with chance 0.1 in each "
        "round\nseed         3\n" in text
    )
    assert "closed form  none: it is for equal ranks and links, without noise\n" in text
    several = said(capsys, "ring -n 8 --bytes 8K --noise 5us --seed 3 --runs 5")
    assert "noise        exponential: messages are late by 5 us in the mean\n" in several
    assert "seed         3 to 7\n" in several
    times = sorted(
        simulate(named("ring"), 8, 8192, noise=Noise(5e-6, seed=3 + k)).seconds for k in range(5)
    )
    assert seconds(several) == close(times[2])
    assert "in the median of 5 runs" in several
    low, high = re.search(r"^ +(\S+) us to (\S+) us$", several, re.MULTILINE).groups()
    assert (float(low), float(high)) == close((1e6 * times[0], 1e6 * times[-1]))


def test_stragglers(capsys):
    words = "binomial --collective reduce -n 4 --bytes 64K --straggler 3:2.5 --straggler 1:1ms"
    done = simulate(
        REGISTRY.get(REDUCE, "binomial"), 4, 65536, start=[0, 1e-3, 0, 0], slow=[1, 1, 1, 2.5]
    )
    text = said(capsys, words)
    assert seconds(text) == close(done.seconds)
    assert "straggler    rank 3 takes 2.5 x as long\nstraggler    rank 1 begins 1 ms late\n" in text
    assert seconds(said(capsys, words + " --straggler 2:3x")) > 1e-3


def test_numbers_may_have_exponents(capsys):
    words = "ring -n 4 --bytes 8 --bandwidth 1e1 --noise 1us --interrupt 1us:1e-3 --straggler 3:1E1"
    text = said(capsys, words)
    assert "bandwidth 1/G 10 GB/s" in text
    assert "each with chance 0.001 in each round" in text
    assert "rank 3 takes 10 x as long" in text


def test_tunables(capsys):
    text = said(capsys, "chain:segments=16 -n 4 --bytes 1M")
    assert text.startswith("allreduce chain:segments=16, 4 ranks, 1 MiB each\n")
    expected = simulate(REGISTRY.get(named("chain").collective, "chain:segments=16"), 4, 1 << 20)
    assert seconds(text) == close(expected.seconds)


def test_goal(capsys, tmp_path):
    path = tmp_path / "ring.goal"
    text = said(capsys, f"ring -n 4 --bytes 4K --goal {path}")
    assert f"written      {path}\n" in text
    ranks = parse(path.read_text().splitlines())
    sent = [op["numbers"][0] for op in ranks[2].values() if op["kind"] == "send"]
    assert sent == [1024] * 6


def test_a_hundred_thousand_ranks(capsys):
    text = said(capsys, "recursive_doubling -n 100000 --bytes 1M --nodes 3125")
    assert "nodes        3125 of 32 ranks\n" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--straggler 1", "'1' is not RANK:TIME nor RANK:FACTOR, as in 3:1ms or 3:2.5"),
        ("--straggler 1:", "'1:' is not RANK:TIME nor RANK:FACTOR"),
        ("--straggler 1:0.5", "'1:0.5': a factor is 1 to 1e+09; a time has a unit, as in 3:1ms"),
        ("--straggler 1:1m", "'1m' is not a time"),
        ("--straggler 4:2", "--straggler 4: there are ranks 0 to 3"),
        ("--noise 1us:gauss", "there is no distribution 'gauss'; there are: exponential, logn"),
        ("--noise much", "'much' is not a time"),
        ("--interrupt 1us", "'1us' is not TIME:CHANCE with a chance from 0 to 1, as in 100us:0.01"),
        ("--interrupt 1us:2", "'1us:2' is not TIME:CHANCE"),
        ("--seed -1", "'-1' is not a whole number of 0 or more"),
        ("--seed x", "'x' is not a whole number of 0 or more"),
        ("--seed 3", "--seed 3: without --noise or --interrupt nothing is random"),
        ("--runs 3", "--runs 3: without --noise or --interrupt all are alike"),
        ("--runs 0 --noise 1us", "'0' is not a whole number above 0"),
        ("--nodes 5", "--nodes 5: there are 4 ranks"),
        ("--nodes 3", "--nodes 3: 4 ranks fill 2 nodes of 2; take so many, or another number"),
        ("--latency-between 1us", "--cyclic and the costs between nodes need --nodes K"),
        ("--cyclic", "--cyclic and the costs between nodes need --nodes K"),
        ("--nodes 2 --bandwidth-between 0", "--bandwidth-between: '0' is not a number of GB/s"),
        ("--goal /no/such/folder/x.goal", "--goal /no/such/folder/x.goal: No such file or direct"),
    ],
)
def test_one_line_for_a_wrong_word(capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        cli.main(["simulate", "ring", "-n", "4", "--bytes", "8", *words.split()])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("python -m collectives simulate: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("chain:segments=0 -n 4 --bytes 8", "segments=0: needs at least 1"),
        ("chain:width=2 -n 4 --bytes 8", "width=2: allreduce chain has no such tunable"),
        ("ring:x -n 4 --bytes 8", "needs NAME or NAME:KEY=VALUE,KEY=VALUE"),
        ("ring -n 2000 --bytes 8M --goal x.goal", "--goal x.goal: 7996000 messages; the most is"),
        (
            "alltoall bruck -n 7 --bytes 8 --element-bytes 4",
            "--bytes 8: 2 elements of 4 bytes, which 7 ranks do not divide",
        ),
        (
            "alltoall pairwise -n 3 --bytes 4 --goal x.goal",
            "--bytes 4: 4 elements of 1 bytes, which 3 ranks do not divide",
        ),
    ],
)
def test_what_cannot_be_simulated(capsys, words, message):
    with pytest.raises(SystemExit):
        cli.main(["simulate", *words.split()])
    assert message in capsys.readouterr().err


def test_the_rounds_are_counted_unless_that_takes_long():
    ring = REGISTRY.get(ALLREDUCE, "ring")
    assert rounds_of(ring, 10) == 18
    assert rounds_of(ring, 1_000_000, limit=0.0) is None
    played = []
    assert simulate(ring, 10, 80, played=lambda: played.append(1)).rounds == len(played) == 18


@pytest.mark.parametrize(
    ("rounds", "text"),
    [(5, "round 4 of 10, about 0:00:03 left"), (None, "round 4, 0:00:02 so far")],
)
def test_how_far_a_long_simulation_is(rounds, text):
    clock = iter([0.0, 0.5, 0.9, 0.95, 2.0, 2.1, 2.15])
    out = io.StringIO()
    shown = RoundsShown(out, rounds, runs=2, now=lambda: next(clock))
    for _ in range(6):
        shown()
    assert out.getvalue() == f"\r\x1b[K{text}"  # once, as the others come too soon
    shown.end()
    assert out.getvalue().endswith("left\r\x1b[K" if rounds else "far\r\x1b[K")


def test_a_short_simulation_shows_nothing():
    out = io.StringIO()
    shown = RoundsShown(out, 3)
    shown()
    shown.end()
    assert out.getvalue() == ""
