import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from xml.etree import ElementTree

import pytest

from collectives import __main__ as cli
from collectives.bench import options
from collectives.bench.settings import AUTO, EXECUTORS
from collectives.collective import ALLREDUCE
from collectives.commands import named
from collectives.commands.arguments import Parser, byte_sizes, nbytes, rank_counts, seconds
from collectives.commands.files import another_mpi
from collectives.fit import Fit
from collectives.machine import machine
from collectives.model import Model
from collectives.simulate import simulate
from collectives.step import Reduce, Send
from collectives.table import Section, Table, Way, breakpoints_of
from collectives.topology import Topology

from .algorithms import ALL, made

NODES = Topology(8, Model(latency=1e-6), Model(latency=5e-6))


def command(*words):
    """Run ``python -m collectives`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "collectives", *words], capture_output=True, text=True, timeout=100
    )


def test_list():
    done = command("list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len([line for line in lines if line.startswith(tuple(a.collective.name for a in ALL))])
    ring = next(line for line in lines if line.split()[:2] == ["allreduce", "ring"])
    assert re.search(r"ring +14 +112 +8 +Patarasuk & Yuan 2009 +Reduce-scatter round", ring)
    for a in ALL:
        assert any(line.split()[:2] == [a.collective.name, a.name] for line in lines)
        for key, tunable in a.tunables.items():
            line = next(
                line
                for line in lines
                if line.startswith(f"{a.name}:{key} ")
                and re.search(rf"\b{a.collective.name}\b", line[-120:])
            )
            assert tunable.meaning in line
            assert line.split()[1] == str(tunable.default)


def test_verify():
    done = command("verify", "--sizes", "1:6")
    assert (done.returncode, done.stderr) == (0, "")
    *each, total = done.stdout.splitlines()
    assert len(each) == len(ALL)
    assert all(line.split()[2] == "proved" for line in each)
    assert total == f"{len(ALL)} algorithms x 6 numbers of ranks: {6 * len(ALL)} schedules proved"


def test_verify_with_tunables(capsys):
    words = ["verify", "--sizes", "4", "--collective", "bcast", "--tunables"]
    names = "chain:segments=3,hierarchical:node=2,outer=chain,binomial"
    assert cli.main([*words, "--algorithm", names]) == 0
    *each, total = capsys.readouterr().out.splitlines()
    specs = ["chain:segments=3", "hierarchical:node=2,outer=chain", "binomial"]
    assert [line.split()[1] for line in each] == specs
    # 7 numbers of segments; 1 node size, 5 algorithms inside and 5 across; and each as it is.
    assert total == "3 algorithms x 1 number of ranks: 21 schedules proved"


def test_verify_says_what_is_wrong(monkeypatch, capsys):
    def generate(rank, size):
        yield [Send((rank + 1) % size, 0), Reduce((rank + 1) % size, 0)]

    wrong = made(generate, ALLREDUCE, lambda size: 1)
    monkeypatch.setattr(named, "find_algorithms", lambda *names: [wrong])
    assert cli.main(["verify", "--sizes", "2,3,4"]) == 1
    first, total = capsys.readouterr().out.splitlines()
    assert "FAILED  allreduce made, 3 ranks: rank 0, round 0: sends block 0 to rank 1" in first
    assert total == "1 algorithm x 3 numbers of ranks: 1 schedule proved, 2 failed"


def test_simulate(capsys):
    words = ["simulate", "ring", "--ranks", "100", "--bytes", "1M"]
    assert cli.main([*words, "--latency", "1us", "--bandwidth", "10", "--reduction", "20"]) == 0
    said = capsys.readouterr().out
    expected = 198 * (1e-6 + (1 << 20) / 100 / 10e9) + 99 * (1 << 20) / 100 / 20e9
    assert f"time         {1e6 * expected:.6g} us" in said
    assert f"closed form  {1e6 * expected:.6g} us, relative difference" in said
    difference = float(re.search(r"relative difference (\S+)", said)[1])
    assert difference < 1e-12
    assert "rounds       198\n" in said
    assert "messages     19800; of one rank 198 to 198\n" in said


def test_simulate_a_straggler_and_a_rooted_collective(capsys):
    words = ["simulate", "binomial", "--ranks", "8", "--bytes", "64K"]
    assert cli.main([*words, "--collective", "bcast", "--straggler", "0:1s"]) == 0
    said = capsys.readouterr().out
    assert "bcast binomial, 8 ranks, 64 KiB each" in said
    assert "time         1.00002 s" in said
    assert "straggler    rank 0 begins 1 s late\n" in said
    assert "closed form  none: it is for equal ranks and links, without noise\n" in said


def test_a_barrier_needs_no_length(capsys):
    assert cli.main(["simulate", "barrier", "dissemination", "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("barrier dissemination, 1 rank\n")


def test_simulate_whole_elements(capsys):
    words = ["simulate", "ring", "--ranks", "8", "--bytes", "12", "--element-bytes", "4"]
    assert cli.main(words) == 0
    assert "messages     42; of one rank 5 to 6\n" in capsys.readouterr().out


def test_draw(tmp_path):
    path = tmp_path / "ring.svg"
    done = command("draw", "ring", "--ranks", "4", "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert str(path) in done.stdout


def test_draw_text(capsys):
    assert cli.main(["draw", "ring", "--ranks", "4", "--text"]) == 0
    assert "round 5:  0 ->1 [2] =" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "draw ring -n 3 --text",
        "draw allreduce ring -n 3 --text",
        "draw ring allreduce -n 3 --text",
        "draw -n 3 --text ring",
        "draw allreduce -n 3 ring --text",
        "draw allreduce --algorithm ring --ranks 3 --text",
        "draw --collective allreduce --algorithm ring -n 3 --text",
    ],
)
def test_names_may_stand_anywhere(words, capsys):
    assert cli.main(words.split()) == 0
    assert capsys.readouterr().out.startswith("allreduce: ring, 3 ranks\n")


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ("ring", ["allreduce ring", "reduce_scatter ring", "allgather ring"]),
        ("allreduce ring", ["allreduce ring"]),
        ("bcast --algorithm chain:segments=2,linear", ["bcast chain:segments=2", "bcast linear"]),
        ("alltoall", ["alltoall bruck", "alltoall direct", "alltoall pairwise"]),
        ("gather,scatter binomial", ["gather binomial", "scatter binomial"]),
    ],
)
def test_verify_and_list_take_the_same_names(words, labels, capsys):
    assert cli.main(["verify", *words.split(), "-n", "2,3"]) == 0
    said = [" ".join(line.split()[:2]) for line in capsys.readouterr().out.splitlines()]
    assert said[:-1] == labels
    assert cli.main(["list", *words.split(), "-n", "3"]) == 0
    listed = capsys.readouterr().out.split("\n\n")[1].splitlines()[1:]
    plain = [label.partition(":")[0] for label in labels]
    assert [" ".join(line.split()[:2]) for line in listed] == plain


def test_list_counts_what_is_sent(capsys):
    assert cli.main(["list", "alltoall", "pairwise", "--ranks", "512"]) == 0
    assert re.search(r"alltoall +pairwise +512 +261632 ", capsys.readouterr().out)


def test_no_words_give_an_overview(capsys):
    assert cli.main([]) == 0
    said = capsys.readouterr().out
    for name, (_, summary, _) in cli.COMMANDS.items():
        assert re.search(rf"^ +{name} +{re.escape(summary)}$", said, re.MULTILINE)
    assert "python -m collectives draw ring" in said


def test_help_and_version(capsys):
    assert cli.main(["help"]) == 0
    assert "python -m collectives draw ring" in capsys.readouterr().out
    assert cli.main(["help", "draw"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m collectives draw ")
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"collectives {metadata.version('hpcdl')}\n"


@pytest.mark.parametrize("words", ["list", "list --help", "verify -n 1:4", "explain bcast -n 4"])
def test_a_closed_pipe_ends_a_command_quietly(words):
    words = [*words.split(), *(["--bytes", "8"] if words.startswith("explain") else [])]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "collectives", *words],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=100,
        )
    finally:
        os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 141 or "--help" in words  # which argparse has not written either


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", ["list", "simulate ring -n 8 --bytes 8", "verify ring -n 4"])
def test_a_full_disk_is_one_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "collectives", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
        )
    assert done.returncode == 1
    said = "python -m collectives: error: standard output: No space left on device\n"
    assert done.stderr == said


def test_a_closed_pipe_ends_the_ranks_quietly(tmp_path):
    (tmp_path / "talks.py").write_text("for i in range(10000):\n    print(i, flush=True)\n")
    with subprocess.Popen(
        [sys.executable, "-m", "collectives", "run", "-n", "2", str(tmp_path / "talks.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as ranks:
        ranks.stdout.readline()
        ranks.stdout.close()
        said = ranks.stderr.read().decode()
        assert ranks.wait(60) != 0
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 1  # Open MPI says that it ends the job


def test_a_table_of_another_machine_is_noticed(tmp_path, capsys):
    path = tmp_path / "table.toml"
    ways = {Way("linear", "python"): (1e-6,)}
    section = Section("bcast", 2, "private", 4, (8,), ways, breakpoints_of((8,), ways))
    known = Table("Cray-1", "MPI 1.0", "1976-01-01", {"python": Fit(Model(), 0.1)}, (section,))
    known.save(path)
    said = f"the table was measured on Cray-1, and this is {machine()}"
    assert cli.main(["explain", "bcast", "-n", "2", "--bytes", "8", "--table", str(path)]) == 0
    assert said in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["tune", "-n", "2", "-o", str(path)])
    assert f"{said}: its times may not hold here; write to another file" in capsys.readouterr().err
    replace(known, machine=machine()).save(path)
    assert cli.main(["explain", "bcast", "-n", "2", "--bytes", "8", "--table", str(path)]) == 0
    assert capsys.readouterr().err == ""
    assert another_mpi(known, "MPI 1.0") == another_mpi(None, "MPI 1.0") == ""
    assert another_mpi(known, "MPI 2.0").startswith("the table was measured with MPI 1.0, and this")


def test_a_file_that_can_be_written_is_left_alone(tmp_path, capsys):
    path = tmp_path / "there.svg"
    path.write_text("old")
    for words in (["--ranks", "500"], ["--text", "--ranks", "600"]):
        with pytest.raises(SystemExit):
            cli.main(["draw", "ring", "-o", str(path), *words])
        with pytest.raises(SystemExit):
            cli.main(["draw", "ring", "-o", str(tmp_path / "new.svg"), *words])
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_explain_with_given_costs(capsys):
    words = ["explain", "allreduce", "ring", "-n", "64", "--bytes", "64K", "--nodes", "8"]
    assert cli.main([*words, "--latency", "1us", "--latency-between", "5us"]) == 0
    said = capsys.readouterr().out
    assert "the costs are given, and the model prices it lowest" in said
    assert "inside       latency L 1 us, bandwidth 1/G 12.5 GB/s, sums 1/c 10 GB/s," in said
    assert "between      latency L 5 us, bandwidth 1/G 12.5 GB/s, overhead" in said
    price = simulate(named.one_algorithm("ring", "allreduce"), 64, 1 << 16, NODES).seconds
    assert re.search(rf"^ +ring(, .*)? +native +{1e6 * price:.2f} +-$", said, re.MULTILINE)


def test_explain_names_all_that_share_a_line_where_it_is_wished(capsys):
    words = ["explain", "allreduce", "-n", "2", "--bytes", "1M"]
    short, long = (cli.main([*words, *more]) or capsys.readouterr().out for more in ([], ["--all"]))
    assert short.endswith("\n--all shows all, each in a line of its own.\n")
    assert re.search(r", \d+ more +native ", short)
    assert "--all" not in long
    assert re.search(r"^ +torus +native ", long, re.MULTILINE)


def test_draw_with_tunables(capsys):
    assert cli.main(["draw", "chain:segments=2", "--ranks", "3", "--text"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("allreduce: chain:segments=2, 3 ranks\n")
    assert "5 rounds, 8 messages, 2 blocks" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("lst", "no command 'lst' (did you mean list?); there are: list, verify, simulate,"),
        ("xyzzy", "no command 'xyzzy'; there are: list,"),
        ("--flag", "unrecognized arguments: --flag"),
        ("draw ring --flag 3", "unrecognized arguments: --flag 3; 'python -m collectives draw -"),
        ("tune allreduce -o x", "arguments: allreduce (did you mean --collective allreduce?)"),
        ("simulate ring -n 2 --bytes", "--bytes: needs a value: buffer of a rank: 8, 64K, 100M"),
        ("simulate ring --bytes 8 -n", "-n/--ranks: needs a value: at most 2000000"),
        ("draw ring --text=3", "argument --text: takes no value, and has '3'"),
        (
            "list --collective allreduc",
            "'allreduc' (did you mean allreduce?); there are: allreduce",
        ),
        ("verify --sizes 0:3", "'0:3' is not a number of ranks nor a range of them; say 8,"),
        ("verify --sizes 5:3", "'5:3' is not a number of ranks"),
        (
            "verify --algorithm rign",
            "no algorithm 'rign' (did you mean ring?); there are: bidirectional_ring,",
        ),
        ("simulate rign --ranks 2 --bytes 8", "no collective or algorithm 'rign' (did you mean"),
        ("explain rign --ranks 2 --bytes 8", "no collective or algorithm 'rign' (did you mean"),
        ("simulate bcast --ranks 2 --bytes 8", "say which algorithm; bcast has: binomial, chain,"),
        ("draw bcast reduce binomial --text", "bcast reduce: needs one collective"),
        ("draw ring tree --text", "ring tree: needs one algorithm"),
        ("draw tree bcast --text", "no algorithm 'tree' of bcast; there are: binomial,"),
        ("draw tree bcast --text", "tree is one of allreduce, barrier"),
        ("explain --ranks 2 --bytes 8", "say which collective: allreduce,"),
        ("explain bcast reduce --ranks 2 --bytes 8", "bcast reduce: needs one collective"),
        ("explain binomial --ranks 2 --bytes 8", "binomial is an algorithm of reduce, bcast,"),
        ("explain bcast --ranks 2 --bytes 8 --cyclic", "need --nodes K"),
        ("simulate tree --ranks 2 --bytes 8 --collective bcast", "there are: binomial"),
        ("simulate binomial --ranks 2 --bytes 8", "say which with --collective"),
        ("simulate ring --ranks 0 --bytes 8", "'0' is not a whole number above 0"),
        ("simulate ring --ranks 2 --bytes 8x", "'8x' is not a number of bytes; say it as 8, 1K"),
        ("simulate ring --ranks 2 --bytes 8 --latency 1m", "'1m' is not a time; say it as"),
        ("simulate ring --ranks 2 --bytes 8 --bandwidth 0", "--bandwidth: '0' is not a number of"),
        ("simulate ring --ranks 2 --bytes 8 --straggler 2:1ms", "there are ranks 0 to 1"),
        ("simulate ring --ranks 2 --bytes 8 --straggler 1", "'1' is not RANK:TIME nor RANK:FACTOR"),
        ("simulate ring --ranks 2 --bytes 8 --element-bytes 3", "does not divide 8"),
        ("draw ring", "say where to write the picture, as in -o ring.svg"),
        ("draw ring --ranks 64 -o x.svg", "more than 4000 messages"),
        ("draw ring --ranks 500 --text", "more than 4000 messages"),
        ("draw ring -o x.png", "ends in .svg"),
        ("draw ring -o /no/such/folder/x.svg", "-o /no/such/folder/x.svg: No such file"),
        ("verify --algorithm ,", "',' names nothing; say one name, or some: a,b"),
        ("verify --collective ,,", "',,' names nothing"),
        ("list --collective ,", "',' names nothing"),
        ("bench allreduce --algorithm ,", "',' names nothing"),
        ("verify --sizes 1:999999999999", "is too many ranks; the most is 512 ranks"),
        ("verify --sizes 2,513", "'513' is too many ranks; the most is 512 ranks"),
        ("verify --sizes " + "9" * 5000, "is too many ranks; the most is 512 ranks"),
        ("simulate ring --bytes 8 --ranks 1000000000000", "is too many ranks; the most is 2000000"),
        ("simulate ring --bytes 8 --ranks 2000001", "is too many ranks; the most is 2000000"),
        ("simulate ring --bytes 8 --ranks 1e12", "'1e12' is not a whole number above 0"),
        ("simulate ring --bytes 8 --ranks ²", "'²' is not a whole number above 0"),
        ("simulate ring --bytes 8 --ranks " + "9" * 5000, "is too many ranks; the most is 2000000"),
        ("simulate ring --ranks 2 --bytes 8 --bandwidth 1e-320", "is not a number of GB/s from"),
        ("simulate ring --ranks 2 --bytes 8 --bandwidth 100Gbit", "'100Gbit' is not a number of"),
        ("simulate ring --ranks 2 --bytes 8 --latency 1", "'1': a time needs a unit, ns, us, ms"),
        ("simulate ring --ranks 2", "say how long the buffer of a rank is, as in --bytes 64K"),
        ("simulate ring --ranks 2 --bytes 8 --bandwidth 1_0", "'1_0' is not a number of GB/s from"),
        ("simulate ring --ranks 2 --bytes 8 --reduction nan", "'nan' is not a number of GB/s"),
        ("simulate ring --ranks 2 --bytes 8 --latency 1e999s", "is too long; the most is 1e+09 s"),
        (
            "simulate ring --ranks 2 --bytes 8 --straggler 1:1e999",
            "'1:1e999': a factor is 1 to 1e+09",
        ),
        ("simulate ring --ranks 2 --bytes 8 --straggler ²:1ms", "'²:1ms' is not RANK:TIME"),
        ("simulate ring --ranks 2 --bytes 9999999G", "is too long; the most is"),
        ("simulate ring --ranks 2000000 --bytes 1048576G --element-bytes 1", "too many elements"),
        ("draw ring --ranks 513 --text", "'513' is too many ranks; the most is 512"),
        ("draw ring --ranks 1000000 -o x.svg", "'1000000' is too many ranks; the most is 512"),
        ("list --ranks 1000000", "'1000000' is too many ranks; the most is 512"),
        ("bench allreduce --ranks 1000000 --sizes 8", "is too many ranks; the most is 4096"),
        ("bench allreduce --ranks 3 --started 2", "--ranks 3: 2 ranks were started"),
        ("bench allreduc", "no collective or algorithm 'allreduc' (did you mean allreduce?)"),
        ("bench bcast --algorithm ring", "no algorithm 'ring' of bcast; there are: binomial, "),
        ("bench bcast --algorithm auto,ring", "ring is one of allreduce, reduce_scatter, allgathe"),
        ("bench bcast --compare nccl", "'nccl': there are library, gloo, all"),
        ("help lst", "no command 'lst' (did you mean list?)"),
        ("bench binomial", "binomial is an algorithm of reduce, bcast,"),
        ("bench ring allreduc", "'allreduc' (did you mean allreduce?)"),
        ("draw chain:segments=0 --text", "segments=0: needs at least 1"),
        ("draw chain:segments --text", "needs NAME or NAME:KEY=VALUE,KEY=VALUE"),
        ("verify --algorithm ring:radix=2", "ring has no such tunable; it has: segments"),
        ("bench bcast --dtype int8", "--dtype int8: there are float32, float64, int32, int64"),
        ("bench bcast --op XOR", "--op XOR: there are SUM, PROD, MIN, MAX"),
        ("bench bcast --sizes 8:4", "'8:4' is not a range of bytes"),
        ("bench bcast --json /no/such/folder/x.json", "--json /no/such/folder/x.json: No such"),
        ("bench bcast --batch 9223372036854775808", "is too large; the most is 999999999999999999"),
        ("simulate ring --ranks 2 --bytes 9223372036854775808", "is too long; the most is 112589"),
        ("simulate ring --ranks 2 --bytes 8 --latency -1us", "--latency: '-1us' is not a time"),
        ("simulate ring --ranks 2 --bytes 8 --bytes 16", "--bytes: is given twice; say it once"),
        ("draw ring --text -n 3 --ranks 4", "argument -n/--ranks: is given twice"),
        ("list --collective bcast --collective reduce", "--collective: is given twice"),
        ("draw ring:segments=2,segments=3 --text", "sets a tunable twice"),
        ("list RING", "no collective or algorithm 'RING' (did you mean ring?)"),
        ("bench bcast,barrier --op MAX", "--op MAX: bcast, barrier: does not reduce"),
        ("explain bcast -n 2 --bytes 8 --executor shared", "has no model; needs one of native, py"),
        ("run --allreduce rign -m x", "--allreduce rign (did you mean ring?): there are bidirecti"),
        (
            "run --allreduce tree --executor shared -m x",
            "--allreduce tree: --executor shared has no",
        ),
    ],
)
def test_a_wrong_word_gives_one_line_that_says_what_is_allowed(words, message, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words.split())
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert re.match(r"python -m collectives( \w+)?: error: ", said.err)
    assert message in said.err


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "--collective", ""],
        ["verify", "--algorithm", ""],
        ["bench", "allreduce", "--algorithm", ""],
        ["draw", "ring", "--text", "--collective", ""],
        ["simulate", "ring", "--ranks", "2", "--bytes", "8", "--collective", ""],
    ],
)
def test_an_empty_name_is_refused(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search("'' names nothing|no collective ''", said.err)


def test_what_is_named_twice_is_done_once(capsys):
    assert cli.main(["verify", "ring,ring", "ring", "allreduce", "-n", "2,3,2:3"]) == 0
    *each, total = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in each] == [["allreduce", "ring"]]
    assert total == "1 algorithm x 2 numbers of ranks: 2 schedules proved"
    assert byte_sizes("8:32,16,8") == [8, 16, 32]


def test_all_executors_and_the_one_that_is_taken():
    parser = Parser()
    options.add(parser)
    assert parser.parse_args(["--executor", "all,auto"]).executor == (*EXECUTORS, AUTO)
    assert parser.parse_args(["--executor", "all"]).executor == EXECUTORS


def test_ctrl_c_ends_a_command_without_a_word(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.COMMANDS["simulate"][0], "run", interrupted)
    assert cli.main(["simulate", "ring", "-n", "2", "--bytes", "8"]) == 130
    assert capsys.readouterr() == ("", "")


def test_letters_that_the_output_does_not_have_are_escaped():
    done = subprocess.run(
        [sys.executable, "-m", "collectives", "list"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Tr\\xe4ff" in done.stdout


def test_verify_goes_on_after_a_proof_that_is_too_large(capsys):
    words = ["verify", "--sizes", "2,512", "--collective", "alltoall", "--algorithm", "pairwise"]
    assert cli.main(words) == 1
    first, total = capsys.readouterr().out.splitlines()
    assert "FAILED  512 ranks with 1024 blocks: a proof needs 274877906944 counts" in first
    assert total == "1 algorithm x 2 numbers of ranks: 1 schedule proved, 1 failed"


@pytest.mark.parametrize(
    "words", [["list"], ["verify"], ["simulate"], ["draw"], ["bench"], ["explain"]]
)
def test_help_has_examples(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*words, "--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert said.count(f"python -m collectives {' '.join(words)}") >= 3


def test_the_examples_can_be_parsed(monkeypatch):
    ran = []
    for name, (module, _, examples) in cli.COMMANDS.items():
        monkeypatch.setattr(module, "run", lambda args: ran.append(args.command) or 0)
        for line in examples.splitlines():
            words = line[line.index("collectives ") :].split()[1:]
            assert words[0] == name
            assert cli.main(words) == 0
    assert len(ran) >= 12


def test_numbers_of_bytes():
    assert [nbytes(t) for t in ("0", "8", "1K", "64k", "1M", "2G", "1MiB", "4KB")] == [
        *(0, 8, 1024, 65536, 1 << 20, 2 << 30),
        *(1 << 20, 4096),
    ]
    assert byte_sizes("8,1K,64K,1M") == [8, 1024, 65536, 1 << 20]
    assert byte_sizes("8:64M") == [8 << k for k in range(24)]
    assert byte_sizes("3:20,1K") == [3, 6, 12, 1024]


def test_numbers_of_ranks():
    assert rank_counts("1:33") == list(range(1, 34))
    assert rank_counts("2,3,8:10") == [2, 3, 8, 9, 10]


def test_times():
    assert [seconds(t) for t in ("250ns", "1.5us", "2ms", "0.1s", "2e-6s", "0", "1e1 us")] == [
        pytest.approx(v) for v in (2.5e-7, 1.5e-6, 2e-3, 0.1, 2e-6, 0.0, 1e-5)
    ]


@pytest.mark.parametrize(
    "words",
    [
        "bench bcast --executor native,shared",
        "tune -o x --executor native",
        "run -m x --executor shared",
    ],
)
def test_it_is_said_before_the_ranks_start_that_no_executor_can_be_had(words, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    name, *_, asked = words.split()
    words = [name, "--executor", asked, *words.split()[1:-2]]
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    said = f"--executor {asked}: needs numba (pip install 'hpcdl[native]')"
    assert capsys.readouterr().err == f"python -m collectives {name}: error: {said}\n"


def test_bench_refuses_what_does_not_fit_in_memory():
    done = command("bench", "allreduce", "--sizes", "64G", "--algorithm", "ring")
    assert done.returncode != 0
    assert "need about" in done.stderr
    assert "Traceback" not in done.stderr
