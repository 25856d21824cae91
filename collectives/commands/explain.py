"""``python -m collectives explain``: which algorithm is taken, why, and what the others take."""

from __future__ import annotations

import argparse
from pathlib import Path

from collectives.commands.arguments import (
    UsageError,
    find_collectives,
    names,
    nbytes,
    positive,
    ranks_up_to,
)
from collectives.explain import explain
from collectives.table import EXECUTORS, PLACEMENTS, Table
from collectives.table_reader import TableError

MAX_RANKS = 20_000
"""The most ranks for which all algorithms are priced to their ends."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("collective", help="allreduce, bcast, ...")
    parser.add_argument(
        "-n",
        "--ranks",
        type=ranks_up_to(MAX_RANKS),
        required=True,
        metavar="P",
        help=f"at most {MAX_RANKS}",
    )
    parser.add_argument(
        "--bytes", type=nbytes, required=True, metavar="N", help="buffer of a rank: 8, 64K, 1MiB"
    )
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="what 'tune' measured; default: the model only"
    )
    parser.add_argument(
        "--executor",
        type=names,
        default=list(EXECUTORS),
        metavar="NAMES",
        help=f"those that can be had ({','.join(EXECUTORS)})",
    )
    parser.add_argument(
        "--placement", default=PLACEMENTS[0], help=f"of the buffers: {', '.join(PLACEMENTS)}"
    )
    parser.add_argument(
        "--itemsize", type=positive, default=4, metavar="N", help="bytes of an element (4)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the choice, the reason, and all candidates."""
    (collective,) = find_collectives([args.collective])
    for name in args.executor:
        if name not in EXECUTORS:
            raise UsageError(f"--executor {name}: there are {', '.join(EXECUTORS)}")
    if args.placement not in PLACEMENTS:
        raise UsageError(f"--placement {args.placement}: there are {', '.join(PLACEMENTS)}")
    try:
        table = None if args.table is None else Table.load(args.table)
        found = explain(
            collective,
            args.ranks,
            args.bytes,
            table=table,
            executors=tuple(args.executor),
            placement=args.placement,
            itemsize=args.itemsize,
        )
    except (TableError, ValueError) as error:
        raise UsageError(str(error)) from None
    print(found.text)
    return 0
