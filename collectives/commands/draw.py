"""``python -m collectives draw``: a picture of a schedule."""

from __future__ import annotations

import argparse
from pathlib import Path

from collectives.commands.arguments import UsageError, add_collective, find_algorithm, ranks_up_to
from collectives.draw import MAX_RANKS, draw_svg, draw_text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("algorithm", help="as 'list' shows it: ring, chain:segments=4, ...")
    parser.add_argument(
        "--ranks",
        type=ranks_up_to(MAX_RANKS),
        default=8,
        metavar="P",
        help=f"default 8; at most {MAX_RANKS}",
    )
    add_collective(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the SVG file to write")
    parser.add_argument("--text", action="store_true", help="print it as text")


def run(args: argparse.Namespace) -> int:
    """Write the picture, or print the text."""
    algorithm = find_algorithm(args.algorithm, args.collective)
    if not args.text and args.output is None:
        raise UsageError("say where to write the picture, as in -o ring.svg, or take --text")
    if args.output is not None and args.output.suffix.lower() != ".svg":
        raise UsageError(f"-o {args.output}: the picture is an SVG; needs a name that ends in .svg")
    if args.output is not None:
        try:
            picture = draw_svg(algorithm, args.ranks)
        except ValueError as error:
            raise UsageError(str(error)) from error
        try:
            args.output.write_text(picture)
        except OSError as error:
            raise UsageError(f"-o {args.output}: {error.strerror}") from error
        print(f"{args.output}: {algorithm.collective.name} {algorithm.spec}, {args.ranks} ranks")
    if args.text:
        print(draw_text(algorithm, args.ranks), end="")
    return 0
