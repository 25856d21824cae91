"""``python -m collectives list``: what there is."""

from __future__ import annotations

import argparse

from collectives.commands.arguments import MAX_PROVED, find_algorithms, names, ranks_up_to
from collectives.messages import messages_of


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--collective", type=names, metavar="NAMES", help="only of these")
    parser.add_argument(
        "--ranks",
        type=ranks_up_to(MAX_PROVED),
        default=8,
        metavar="P",
        help=f"count rounds for P ranks (8); at most {MAX_PROVED}",
    )


def run(args: argparse.Namespace) -> int:
    """Print a line for each algorithm."""
    rows = [["collective", "algorithm", "rounds", "messages", "blocks", "paper", "summary"]]
    for a in find_algorithms(args.collective, None):
        rounds, messages = messages_of(a, args.ranks)
        sent = sum(m.source != m.target for m in messages)
        counts = [str(n) for n in (rounds, sent, a.blocks(args.ranks))]
        rows.append([a.collective.name, a.name, *counts, a.paper, a.summary])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"Rounds, messages of all ranks together, and blocks: for {args.ranks} ranks.\n")
    for row in rows:
        cells = [
            cell.rjust(width) if 2 <= i <= 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    return 0
