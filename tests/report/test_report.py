"""The report: which files it writes, what they say, and what it can cope with."""

import base64
import json
import os
import re
import struct
import sys
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

from hpcdl.errors import UserError
from hpcdl.report import report
from hpcdl.report.metrics import bytes_text, duration_text, parse

CONFIG = '[run]\ndir = "<b>&"  # {braces}\n'


def line(epoch, **changes):
    values = {
        "epoch": epoch,
        "step": 23 * epoch,
        "time_s": 1.5 * epoch,
        "train_loss": 1 / epoch,
        "test_loss": 1.2 / epoch,
        "train_accuracy": 1 - 0.4 / epoch,
        "test_accuracy": 1 - 0.5 / epoch,
        "samples_per_s": 1234.5,
        "comm_fraction": 0.25,
        "wire_bytes_per_step": 178_489.2,
    }
    return json.dumps(values | changes)


def run_folder(tmp_path, lines, config=CONFIG):
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(text + "\n" for text in lines))
    if config:
        (folder / "config.toml").write_text(config)
    return folder


class Table(HTMLParser):
    """The cells of the table, row by row; fails on tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.rows = []
        self.open = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def decoded(png):
    """The pixels of an 8-bit RGBA PNG file, by its own definition."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    position, packed = 8, b""
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        body = png[position + 8 : position + 8 + length]
        assert struct.unpack(">I", png[position + 8 + length :][:4])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        packed += body if kind == b"IDAT" else b""
        position += 12 + length
    assert len(zlib.decompress(packed)) == height * (4 * width + 1)
    return width, height


def test_what_is_written(tmp_path):
    folder = run_folder(tmp_path, [line(1), line(2), line(3, test_accuracy=0.8)])
    files = report(folder)
    assert files == [folder / "report.png", folder / "report.html"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.toml",
        "metrics.jsonl",
        "report.html",
        "report.png",
    ]
    assert decoded(files[0].read_bytes()) == (1500, 1050)
    page = files[1].read_text()
    assert Table(page).rows == [
        [
            "epoch",
            "step",
            "time",
            "train loss",
            "test loss",
            "train accuracy",
            "test accuracy",
            "samples/s",
            "communication",
            "sent per rank and step",
        ],
        [
            "1",
            "23",
            "1.5 s",
            "1.0000",
            "1.2000",
            "60.00 %",
            "50.00 %",
            "1,234",
            "25.00 %",
            "178 kB",
        ],
        [
            "2",
            "46",
            "3.0 s",
            "0.5000",
            "0.6000",
            "80.00 %",
            "75.00 %",
            "1,234",
            "25.00 %",
            "178 kB",
        ],
        [
            "3",
            "69",
            "4.5 s",
            "0.3333",
            "0.4000",
            "86.67 %",
            "80.00 %",
            "1,234",
            "25.00 %",
            "178 kB",
        ],
    ]
    assert (
        "3 epochs \u00b7 4.5 s \u00b7 test accuracy 80.00 % at the end \u00b7 best 80.00 % in "
        "epoch 3 \u00b7 178 kB sent per rank and step" in page
    )
    assert "<h1>my run</h1>" in page
    assert re.findall(r'<tr class="best"><td>(.)', page) == ["3"]
    assert "dir = &quot;&lt;b&gt;&amp;&quot;  # {braces}" in page


def test_the_page_needs_nothing_else(tmp_path):
    png, page = (path.read_bytes() for path in report(run_folder(tmp_path, [line(1)])))
    inside = re.findall(rb'src="data:image/png;base64,([^"]*)"', page)
    assert [base64.b64decode(text) for text in inside] == [png]
    assert not re.search(rb"(?:href|src)=\"(?!data:)|url\(|@import|<script|<link", page)


def test_it_can_be_made_again(tmp_path):
    folder = run_folder(tmp_path, [line(1)])
    before = [path.read_bytes() for path in report(folder)]
    assert [path.read_bytes() for path in report(folder)] == before


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        ([], 0),
        ([line(1)], 1),
        ([line(1, train_loss=0.0, test_loss=0.0, samples_per_s=0, comm_fraction=0)], 1),
        ([line(1), line(2, train_loss=float("nan"), test_loss=float("inf"))], 2),
        ([line(i, test_loss=None, test_accuracy=None) for i in range(1, 6)], 5),
        ([line(i, train_loss=-1.0) for i in range(1, 201)], 200),
        ([json.dumps({"epoch": 1}), json.dumps({"epoch": 2})], 2),
        ([line(1, train_loss=1e308, test_loss=-1e308, samples_per_s=1e308, time_s=1e308)], 1),
        ([line(1), line(1e308, comm_fraction=1e308, test_accuracy=-1e308)], 2),
        ([line(1, train_loss="high", comm_fraction=True, step=10**400)], 1),
    ],
)
def test_unusual_metrics(tmp_path, lines, rows):
    files = report(run_folder(tmp_path, lines, config=""))
    decoded(files[0].read_bytes())
    page = files[1].read_text()
    assert len(Table(page).rows) == (rows + 1 if rows else 0)
    assert ("No epoch has finished yet." in page) == (rows == 0)
    assert "Configuration" not in page
    assert "nan" not in page.split("base64,")[1].split('"', 1)[1]


def test_a_half_written_last_line(tmp_path):
    folder = run_folder(tmp_path, [line(1)])
    whole = line(2)
    for length in range(1, len(whole)):
        assert parse(line(1) + "\n" + whole[:length]) == parse(line(1))
    assert len(parse(line(1) + "\n" + whole)[0]) == 2
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(whole[:50].encode())
    page = report(folder)[1].read_text()
    assert "1 epoch \u00b7" in page
    assert "could not be read" not in page


def test_other_lines_that_are_no_metrics_are_counted(tmp_path):
    folder = run_folder(
        tmp_path, [line(1), "{broken", "[1]", "3", "null", "{}", "", "[" * 9**5, line(2)]
    )
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b"\xff\xfe\n")
    page = report(folder)[1].read_text()
    assert "<p>7 lines of metrics.jsonl could not be read.</p>" in page
    assert "2 epochs \u00b7" in page


def test_of_an_epoch_done_twice_the_later_counts():
    lines, unread = parse("\n".join([line(1), line(3), line(2), line(3, train_loss=9)]) + "\n")
    assert [values["epoch"] for values in lines] == [1, 2, 3]
    assert lines[2]["train_loss"] == 9
    assert unread == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1 kB"),
        (1500, "1.5 kB"),
        (999_600, "1 MB"),
        (2.5e9, "2.5 GB"),
        (1e15, "1e+03 TB"),
        (np.nan, "\u2013"),
    ],
)
def test_bytes(value, text):
    assert bytes_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (99.94, "99.9 s"), (100, "1:40 min"), (3599.6, "1:00:00"), (90_061, "25:01:01")],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


def test_names_that_are_markup(tmp_path):
    folder = tmp_path / "a$b$<i>_^{"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text(line(1))
    page = report(folder)[1].read_text()
    assert "<h1>a$b$&lt;i&gt;_^{</h1>" in page


def test_users_settings_of_matplotlib_play_no_part(tmp_path):
    import matplotlib as mpl

    folder = run_folder(tmp_path, [line(1), line(2)])
    before = report(folder)[0].read_bytes()
    with mpl.rc_context({"text.usetex": True, "axes.facecolor": "black", "font.size": 30}):
        assert report(folder)[0].read_bytes() == before
        assert mpl.rcParams["font.size"] == 30


def test_no_metrics(tmp_path):
    with pytest.raises(UserError, match=r"metrics\.jsonl cannot be read \(No such file"):
        report(tmp_path)
    with pytest.raises(UserError, match=r"run\.dir"):
        report(tmp_path / "missing")


def test_no_matplotlib(tmp_path, monkeypatch):
    folder = run_folder(tmp_path, [line(1)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=re.escape("pip install 'hpcdl[plot]'")):
        report(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.toml", "metrics.jsonl"]


def test_a_place_that_cannot_be_written(tmp_path):
    folder = run_folder(tmp_path, [line(1)])
    (folder / "report.png").mkdir()
    with pytest.raises(UserError, match=r"report\.png: cannot be written: Is a directory"):
        report(folder)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(UserError, match="not a regular file"):
        report(tmp_path)
