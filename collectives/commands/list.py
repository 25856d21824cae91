"""``python -m collectives list``: what there is."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from collectives.commands import named
from collectives.commands.arguments import MAX_PROVED, add_ranks
from collectives.model import Model
from collectives.registry import Algorithm, Tunable
from collectives.simulate import simulate
from collectives.units import count_text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser)
    add_ranks(parser, MAX_PROVED, 8, what="count rounds for P ranks")


def run(args: argparse.Namespace) -> int:
    """Print a line for each algorithm, and one for each tunable."""
    chosen = named.find_algorithms(*named.sorted_out(args))
    rows = [["collective", "algorithm", "rounds", "messages", "blocks", "paper", "summary"]]
    for a in chosen:
        done = simulate(a, args.ranks, 1 << 20, Model())  # all ranks at once: it is quick
        sent = int(done.messages.sum())
        numbers = [str(n) for n in (done.rounds, sent, a.blocks(args.ranks))]
        rows.append([a.collective.name, a.name, *numbers, a.paper, a.summary])
    ranks = count_text(args.ranks, "rank")
    print(f"Rounds, messages of all ranks together, and blocks: for {ranks}.\n")
    _table(rows, right=(2, 3, 4))
    tunables = _tunables(chosen, args.ranks)
    if tunables:
        print(
            "\nTunables, set as in chain:segments=16 or hierarchical:node=8,outer=ring; a tuner "
            f"tries the default and, for {ranks}, these values.\n"
        )
        _table([["tunable", "default", "values", "meaning", "collectives"], *tunables], right=(1,))
    return 0


def _tunables(chosen: Sequence[Algorithm], ranks: int) -> list[list[str]]:
    """Return a row for each tunable; where several collectives have the same one, they share it."""
    homes: dict[tuple[str, ...], list[str]] = {}
    for a in chosen:
        for key, tunable in a.tunables.items():
            cells = f"{a.name}:{key}", str(tunable.default), _values(tunable, ranks)
            homes.setdefault((*cells, tunable.meaning), []).append(a.collective.name)
    return [[*cells, ", ".join(where)] for cells, where in sorted(homes.items())]


def _values(tunable: Tunable, ranks: int) -> str:
    if tunable.choices is not None:
        return ", ".join(tunable.choices())
    return ", ".join(str(v) for v in tunable.values(ranks))


def _table(rows: Sequence[Sequence[str]], right: tuple[int, ...]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
