"""Draw a schedule as a space-time diagram (SVG), or write it down as text.

Ranks are the rows, rounds the columns. An arrow is a message: solid and red where the receiver
adds it to what it has (Reduce), dashed and blue where it stores it (Recv). The label at its tail
names the blocks. Only the standard library is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from collectives.messages import Message, messages_of
from collectives.registry import Algorithm
from collectives.step import Send, scalar
from collectives.units import count_text

MAX_MESSAGES = 4000
"""A picture with more arrows than that, or a text with more messages, shows nothing."""

MAX_CELLS = 20_000
"""The most ranks times rounds of a picture."""

MAX_RANKS = 512
"""A picture or a text of more ranks than that is of no use, and takes long to find out."""

_LABEL = 14
"""The most characters of a label; where the blocks need more, it gives their number."""

_LABELS = 3
"""The most labels of one colour that a rank has in a round; with more, one label has all blocks."""

_ROW, _COLUMN, _LEFT, _TOP, _FOOT, _NOTE = 50, 104, 84, 96, 62, 24  # pixels
_INK, _FAINT = "#1f2933", "#c3cbd4"
_COLOURS = {True: "#c0392b", False: "#1f5fa8"}  # reduced, stored
_NAMES = {True: "reduce", False: "recv"}

_STYLE = f"""
text {{ font-family: Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: {_INK}; }}
.title {{ font-size: 19px; font-weight: bold; }}
.small {{ font-size: 13px; fill: #52606d; }}
.rank {{ font-size: 14px; text-anchor: end; }}
.round {{ font-size: 13px; text-anchor: middle; fill: #52606d; }}
.band {{ fill: #f4f6f8; }}
.life {{ stroke: {_FAINT}; stroke-width: 1.2; }}
.message line, .copy path, .key line {{ stroke-width: 1.8; fill: none; }}
.reduce line, .reduce path {{ stroke: {_COLOURS[True]}; marker-end: url(#head-reduce); }}
.recv line, .recv path {{ stroke: {_COLOURS[False]}; stroke-dasharray: 7 3;
  marker-end: url(#head-recv); }}
.label rect {{ fill: white; stroke-width: 1; }}
.label text {{ font-size: 12px; text-anchor: middle; }}
.reduce rect {{ stroke: {_COLOURS[True]}; }}
.recv rect {{ stroke: {_COLOURS[False]}; }}
.dot {{ fill: {_INK}; }}
"""


def draw_svg(algorithm: Algorithm, size: int) -> str:
    """Return the space-time diagram of an algorithm as an SVG document.

    Raises:
        ValueError: ``size`` is not in 1 .. `MAX_RANKS`, or it would have more than `MAX_MESSAGES`
            arrows or `MAX_CELLS`.
        ScheduleError: a send or a receive has no partner.
    """
    _check(algorithm, size, "picture", MAX_CELLS)
    blocks = algorithm.blocks(size)
    rounds, messages = messages_of(algorithm, size)
    spaces = _spaces(algorithm, size, blocks)
    sheet = _Sheet(size, rounds, _NOTE * bool(spaces))
    arrows = _arrows(sheet, messages, blocks)
    title = f"{algorithm.collective.name}: {algorithm.spec}, {count_text(size, 'rank')}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{sheet.width:g}" height="{sheet.height}" '
        f'viewBox="0 0 {sheet.width:g} {sheet.height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(algorithm.summary)}</desc>",
        f"<style>{_STYLE}</style>",
        f"<defs>{_head(True)}{_head(False)}</defs>",
        f'<rect width="{sheet.width:g}" height="{sheet.height}" fill="white"/>',
        f'<text class="title" x="20" y="34">{escape(title)}</text>',
        f'<text class="small" x="20" y="56">'
        f"{escape(_facts(algorithm, rounds, messages, blocks))}</text>",
        *_grid(sheet),
        *(a.line(sheet, told=bool(spaces)) for a in arrows),
        *(a.label() for a in arrows if a.text and blocks > 1),
        *_legend(sheet, messages, blocks, spaces),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw_text(algorithm: Algorithm, size: int) -> str:
    """Return the schedule as text: a line for each round, ``+`` for Reduce and ``=`` for Recv.

    Raises:
        ValueError: ``size`` is not in 1 .. `MAX_RANKS`, or there are more than `MAX_MESSAGES`.
        ScheduleError: a send or a receive has no partner.
    """
    _check(algorithm, size, "text", None)
    blocks = algorithm.blocks(size)
    rounds, messages = messages_of(algorithm, size)
    lines = [
        f"{algorithm.collective.name}: {algorithm.spec}, {count_text(size, 'rank')}",
        _facts(algorithm, rounds, messages, blocks),
        "a ->b [c] +  rank a sends block c to rank b, which adds it; = which stores it",
        "",
    ]
    spaces = _spaces(algorithm, size, blocks)
    if spaces:
        lines[2:3] = ["a ->b [c>d] =  rank a sends block c to rank b, which stores it in d", spaces]
    labels = [f"{_label(m)}>{_into(m)}" if spaces else _label(m) for m in messages]
    rank, block = len(str(size - 1)), max(map(len, labels), default=0)
    by_round: list[list[str]] = [[] for _ in range(rounds)]
    for m, text in zip(messages, labels, strict=True):
        label = f"[{text}]".ljust(block + 2)
        by_round[m.round].append(
            f"{m.source:>{rank}} ->{m.target:<{rank}} {label} {'+' if m.reduced else '='}"
        )
    width = len(str(max(0, rounds - 1)))
    lines += [
        f"round {k:>{width}}:  {'   '.join(texts) or 'nothing'}" for k, texts in enumerate(by_round)
    ]
    return "\n".join(lines) + "\n"


def _check(algorithm: Algorithm, size: int, what: str, cells: int | None) -> None:
    """Check that a schedule can be shown, without a list of its messages.

    Raises:
        ValueError: it is too large.
    """
    if not 1 <= size <= MAX_RANKS:
        raise ValueError(f"size={size}: needs 1 to {MAX_RANKS} ranks")
    sent = 0
    for rank in range(size):
        for k, steps in enumerate(algorithm.generate(rank, size), 1):
            sent += len({int(s.peer) for s in map(scalar, steps) if isinstance(s, Send)})
            found = [(sent, MAX_MESSAGES, "messages"), (size * k, cells, "ranks times rounds")]
            for number, most, of_what in found:
                if most is not None and number > most:
                    raise ValueError(
                        f"size={size}: the {what} would have more than {most} {of_what}, and show "
                        "nothing. Take fewer ranks; 'list --ranks P' counts rounds and messages"
                    )


@dataclass(frozen=True, slots=True)
class _Sheet:
    """Where things are, in pixels."""

    size: int
    rounds: int
    note: int = 0

    @property
    def column(self) -> float:
        # A picture with few rounds is as wide as its legend.
        return max(_COLUMN, (800 - _LEFT - 40) / max(self.rounds, 1))

    @property
    def width(self) -> float:
        return self.x(max(self.rounds, 1)) + 40

    @property
    def bottom(self) -> int:
        return _TOP + _ROW * self.size

    @property
    def height(self) -> int:
        return self.bottom + _FOOT + self.note

    def x(self, k: float) -> float:
        return _LEFT + self.column * k

    def y(self, rank: float) -> float:
        return _TOP + _ROW * (rank + 0.5)


def _facts(algorithm: Algorithm, rounds: int, messages: Sequence[Message], blocks: int) -> str:
    sent = sum(m.source != m.target for m in messages)
    kept = len(messages) - sent
    copies = f" and {kept} {'copy' if kept == 1 else 'copies'} inside ranks" if kept else ""
    return (
        f"{count_text(rounds, 'round')}, {count_text(sent, 'message')}{copies}, "
        f"{count_text(blocks, 'block')} ({algorithm.paper})"
    )


def _label(message: Message) -> str:
    """Return the blocks, as the sender numbers them: ``3``, ``0-3`` or ``1,4-5``."""
    return _spans((piece.block, piece.count) for piece in message.pieces)


def _into(message: Message) -> str:
    """Return the blocks, as the receiver numbers them."""
    return _spans((piece.into, piece.count) for piece in message.pieces)


def _spaces(algorithm: Algorithm, size: int, blocks: int) -> str:
    """Return what the numbers of blocks mean where they are not the same data on all ranks."""
    if algorithm.collective.one_space:
        return ""
    parts = [(0, size, "for"), (size, size, "from")]
    told = [f"{_spans([(at, n)])}: {what} rank {_spans([(0, size)])}" for at, n, what in parts]
    if blocks > 2 * size:
        told.append(f"{_spans([(2 * size, blocks - 2 * size)])}: on their way")
    return f"blocks {'; '.join(told)}"


def _union(messages: Sequence[Message]) -> str:
    """Return the blocks of several messages, each once."""
    blocks = {b for m in messages for p in m.pieces for b in range(p.block, p.block + p.count)}
    return _spans((b, 1) for b in sorted(blocks))


def _spans(ranges: Iterable[tuple[int, int]]) -> str:
    spans: list[list[int]] = []
    for first, count in ranges:
        if spans and spans[-1][1] == first:
            spans[-1][1] += count
        else:
            spans.append([first, first + count])
    text = ",".join(str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in spans)
    return text if len(text) <= _LABEL else f"{sum(b - a for a, b in spans)} blocks"


def _head(reduced: bool) -> str:
    return (
        f'<marker id="head-{_NAMES[reduced]}" viewBox="0 0 10 10" refX="9" refY="5" '
        'markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0,1 L10,5 L0,9 Z" fill="{_COLOURS[reduced]}"/></marker>'
    )


def _grid(sheet: _Sheet) -> list[str]:
    top, end = _TOP, sheet.x(sheet.rounds)
    parts = []
    for k in range(sheet.rounds):
        x = sheet.x(k)
        if k % 2 == 0:
            parts.append(
                f'<rect class="band" x="{x:g}" y="{top - 24}" width="{sheet.column:g}" '
                f'height="{sheet.bottom - top + 24}"/>'
            )
        parts.append(
            f'<text class="round" x="{x + sheet.column / 2:g}" y="{top - 8}">round {k}</text>'
        )
    for rank in range(sheet.size):
        y = sheet.y(rank)
        parts.append(f'<line class="life" x1="{sheet.x(0):g}" y1="{y}" x2="{end:g}" y2="{y}"/>')
        parts.append(f'<text class="rank" x="{_LEFT - 14}" y="{y + 5}">rank {rank}</text>')
        parts += [
            f'<circle class="dot" cx="{sheet.x(k):g}" cy="{y}" r="2.6"/>'
            for k in range(sheet.rounds + 1)
        ]
    return parts


@dataclass(frozen=True, slots=True)
class _Arrow:
    """A message, and its label: on the sender's row, one below the other.

    Attributes:
        message: which.
        text: the label; empty where another arrow from the same place has it.
        x: the middle of the label.
        y: that, too.
        width: of the label.
    """

    message: Message
    text: str
    x: float
    y: float
    width: float

    def line(self, sheet: _Sheet, *, told: bool) -> str:
        """Return the arrow; ``told``: say where its blocks are stored."""
        m = self.message
        x1, x2 = self.x + self.width / 2, sheet.x(m.round + 1) - 5
        what = f"block {_label(m)}" if m.count == 1 else f"blocks {_label(m)}"
        where = f" in {_into(m)}" if told else ""
        kind, shape = "message", f'<line x1="{x1:g}" y1="{self.y}" x2="{x2:g}"'
        shape += f' y2="{sheet.y(m.target)}"/>'
        to = f"to rank {m.target}, which {'adds' if m.reduced else 'stores'} it{where}"
        if m.source == m.target:
            kind, to, y = (
                "copy",
                f"to itself{where and f', and stores it{where}'}",
                sheet.y(m.source),
            )
            shape = f'<path d="M{x1:g},{y} Q{(x1 + x2) / 2:g},{y - 30} {x2:g},{y}"/>'
        tip = f"<title>round {m.round}: rank {m.source} sends {what} {to}</title>"
        return f'<g class="{kind} {_NAMES[m.reduced]}">{tip}{shape}</g>'

    def label(self) -> str:
        x, y, width = self.x, self.y, self.width
        return (
            f'<g class="label {_NAMES[self.message.reduced]}"><rect x="{x - width / 2:g}" '
            f'y="{y - 8:g}" width="{width:g}" height="16" rx="7"/>'
            f'<text x="{x:g}" y="{y + 4.3:g}">{self.text}</text></g>'
        )


def _arrows(sheet: _Sheet, messages: Sequence[Message], blocks: int) -> list[_Arrow]:
    places: defaultdict[tuple[int, int], list[Message]] = defaultdict(list)
    for m in messages:
        places[m.round, m.source].append(m)
    arrows = []
    for (k, source), there in places.items():
        labels = _labels(there)
        for i, (text, together) in enumerate(labels):
            y = sheet.y(source) + 17 * (i - (len(labels) - 1) / 2)
            width = 9 + 7 * len(text) if blocks > 1 else 0
            x = sheet.x(k) + (9 + width / 2 if width else 5)
            arrows += [_Arrow(m, text if m is together[0] else "", x, y, width) for m in together]
    return arrows


def _labels(messages: Sequence[Message]) -> list[tuple[str, list[Message]]]:
    """Return the labels of what a rank sends in a round, and the messages that share each."""
    by_kind: defaultdict[tuple[bool, bool], dict[str, list[Message]]] = defaultdict(dict)
    for m in messages:
        by_kind[m.source == m.target, m.reduced].setdefault(_label(m), []).append(m)
    found: list[tuple[str, list[Message]]] = []
    for labels in by_kind.values():
        if len(labels) > _LABELS:
            together = [m for some in labels.values() for m in some]
            labels = {_union(together): together}
        found += labels.items()
    return found


def _legend(sheet: _Sheet, messages: Sequence[Message], blocks: int, spaces: str) -> list[str]:
    y, x = sheet.bottom + 32, 20.0
    parts = []
    words = {True: "added to the receiver's block", False: "stored in the receiver's block"}
    for reduced in sorted({m.reduced for m in messages}, reverse=True):
        parts.append(
            f'<g class="key {_NAMES[reduced]}"><line x1="{x:g}" y1="{y}" x2="{x + 44:g}" y2="{y}"/>'
            f'<text class="small" x="{x + 54:g}" y="{y + 4}">{words[reduced]}</text></g>'
        )
        x += 264
    note = "one block: the whole vector" if blocks == 1 else "number: the block, or blocks, sent"
    if messages:
        parts.append(f'<text class="small" x="{x:g}" y="{y + 4}">{note}</text>')
    if spaces:
        note = f"{spaces}. Where they are stored: point at an arrow"
        parts.append(f'<text class="small" x="20" y="{y + 4 + sheet.note}">{note}</text>')
    return parts
