"""``python -m collectives explain``: which algorithm is taken, why, and what the others take."""

from __future__ import annotations

import argparse
import sys

from collectives.collective import COLLECTIVES, Collective
from collectives.commands import named, network
from collectives.commands.arguments import (
    UsageError,
    add_bytes,
    add_ranks,
    bytes_of,
    file_name,
    names,
    positive,
)
from collectives.commands.files import another_machine
from collectives.explain import explain
from collectives.select import MODELS
from collectives.table import EXECUTORS, PLACEMENTS, Table
from collectives.table_reader import TableError

MAX_RANKS = 20_000
"""The most ranks for which all algorithms are priced to their ends."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser)
    add_ranks(parser, MAX_RANKS)
    add_bytes(parser)
    parser.add_argument(
        "--table",
        type=file_name,
        metavar="FILE",
        help="what 'tune' measured; default: the model only",
    )
    parser.add_argument(
        "--executor",
        type=names,
        metavar="NAMES",
        help=f"those that can be had ({','.join(EXECUTORS)}; with costs: {EXECUTORS[0]})",
    )
    parser.add_argument(
        "--placement", default=PLACEMENTS[0], help=f"of the buffers: {', '.join(PLACEMENTS)}"
    )
    parser.add_argument(
        "--itemsize", type=positive, default=4, metavar="N", help="bytes of an element (4)"
    )
    parser.add_argument("--all", action="store_true", help="show all, each in a line of its own")
    network.add_costs(parser, "those of each executor; where one is given, the others as ")


def run(args: argparse.Namespace) -> int:
    """Print the choice, the reason, and all candidates."""
    collective, algorithms = _case(args)
    for name in args.executor or ():
        if name not in EXECUTORS:
            raise UsageError(f"--executor {name}: there are {', '.join(EXECUTORS)}")
    if args.placement not in PLACEMENTS:
        raise UsageError(f"--placement {args.placement}: there are {', '.join(PLACEMENTS)}")
    model = network.costs(args, args.ranks)
    # With given costs executors do not differ.
    executors = args.executor or (EXECUTORS if model is None else EXECUTORS[:1])
    if model is not None and args.table is not None:
        raise UsageError(f"--table {args.table}: has its own costs; leave it out, or the options")
    if not {*executors} & {*MODELS}:
        raise UsageError(
            f"--executor {','.join(executors)}: has no model; needs one of {', '.join(MODELS)}, too"
        )
    try:
        table = None if args.table is None else Table.load(args.table)
        found = explain(
            collective,
            args.ranks,
            bytes_of(args, collective),
            model=model,
            table=table,
            executors=tuple(executors),
            placement=args.placement,
            itemsize=args.itemsize,
            asked=algorithms or (),
        )
    except (TableError, ValueError) as error:
        raise UsageError(str(error)) from None
    if another_machine(table):
        print(f"note: {another_machine(table)}", file=sys.stderr)
    print(found.whole if args.all else found.text)
    if not args.all and found.whole != found.text:
        print("\n--all shows all, each in a line of its own.")
    return 0


def _case(args: argparse.Namespace) -> tuple[Collective, list[str] | None]:
    """Return the collective, and the algorithms to show; None: all."""
    collectives, algorithms = named.sorted_out(args)
    if collectives is None and algorithms is None:
        raise UsageError(f"say which collective: {', '.join(COLLECTIVES)}")
    if collectives is not None and len(collectives) > 1:
        raise UsageError(f"{' '.join(collectives)}: needs one collective")
    if algorithms is not None:
        home = collectives[0] if collectives else None
        found = [named.one_algorithm(spec, home) for spec in algorithms]
        return found[0].collective, algorithms
    return named.find_collectives(collectives)[0], None
