"""Files that the commands read and write: odd names, odd kinds, and what stays of a failure."""

import errno
import os
import subprocess
import sys
import threading
from xml.etree import ElementTree

import pytest

from collectives import __main__ as cli
from collectives.commands import simulate

DRAW = ["draw", "ring", "-n", "3", "-o"]
GOAL = ["simulate", "ring", "-n", "3", "--bytes", "8", "--goal"]
EXPLAIN = ["explain", "bcast", "-n", "2", "--bytes", "8", "--table"]
OTHERS = [
    ["bench", "bcast", "--json"],
    ["bench", "bcast", "--table"],
    ["tune", "-o"],
    ["tune", "--check"],
    ["run", "-m", "x", "--table"],
    ["run", "-m", "x", "--report-file"],
]


def refused(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("words", [DRAW, GOAL, EXPLAIN, *OTHERS])
def test_an_empty_name_of_a_file_is_refused(words, capsys):
    words = [*words[:1], words[-1], "", *words[1:-1]]
    assert ": '' is not the name of a file\n" in refused(words, capsys)


@pytest.mark.parametrize("words", [DRAW, GOAL, EXPLAIN, *OTHERS])
def test_a_name_that_is_too_long_is_said_in_one_line(words, capsys):
    long = f"{'x' * 300}.svg"
    said = refused([*words[:1], words[-1], long, *words[1:-1]], capsys)
    assert f"{long}: " in said
    assert "File name too long" in said


def test_a_link_stays_a_link(tmp_path, capsys):
    link, target = tmp_path / "link.svg", tmp_path / "target.svg"
    link.symlink_to(target)
    refused(["draw", "ring", "-n", "500", "-o", str(link)], capsys)
    assert [*tmp_path.iterdir()] == [link]
    assert cli.main([*DRAW, str(link)]) == 0
    assert link.is_symlink()
    assert ElementTree.parse(target).getroot().tag.endswith("svg")


def test_a_pipe_gets_the_whole_result(tmp_path):
    pipe, found = tmp_path / "pipe.svg", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    assert cli.main([*DRAW, str(pipe)]) == 0
    reader.join(20)
    assert ElementTree.fromstring(found[0]).tag.endswith("svg")


def test_standard_output_is_a_file_too():
    words = [sys.executable, "-m", "collectives", *GOAL, "/dev/stdout"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert "num_ranks 3" in done.stdout
    assert "written      /dev/stdout" in done.stdout


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("there", [False, True])
def test_no_part_of_a_result_stays_where_it_cannot_be_written(
    tmp_path, monkeypatch, error, there, capsys
):
    def lines(*args, **kwargs):
        yield "rank 0 {" * 10_000
        raise error

    monkeypatch.setattr(simulate, "goal_lines", lines)
    path = tmp_path / "ring.goal"
    if there:
        path.write_text("old")
    if isinstance(error, OSError):
        with pytest.raises(SystemExit) as ended:
            cli.main([*GOAL, str(path)])
        assert ended.value.code == 2
        assert f"--goal {path}: No space left" in capsys.readouterr().err
    else:
        assert cli.main([*GOAL, str(path)]) == 130
    assert not path.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_device_stays_where_it_is(tmp_path, capsys):
    link = tmp_path / "full.svg"
    link.symlink_to("/dev/full")
    with pytest.raises(SystemExit):
        cli.main([*DRAW, str(link)])
    assert f"-o {link}: No space left on device" in capsys.readouterr().err
    assert link.is_char_device()


def test_a_file_that_cannot_be_opened_is_left_alone(tmp_path, monkeypatch, capsys):
    path = tmp_path / "ring.svg"
    path.write_text("old")
    monkeypatch.setattr("collectives.commands.draw.check_writable", lambda *args: path.chmod(0o400))
    if os.access(path, os.W_OK) and os.geteuid() == 0:
        pytest.skip("the user may write to all files")
    refused([*DRAW, str(path)], capsys)
    assert path.read_text() == "old"
