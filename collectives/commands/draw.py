"""``python -m collectives draw``: a picture of a schedule."""

from __future__ import annotations

import argparse

from collectives.commands import named
from collectives.commands.arguments import UsageError, add_ranks, file_name
from collectives.commands.files import check_writable, written
from collectives.draw import MAX_RANKS, draw_svg, draw_text
from collectives.units import count_text


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser)
    add_ranks(parser, MAX_RANKS, 8)
    parser.add_argument(
        "-o", "--output", type=file_name, metavar="FILE", help="the SVG file to write"
    )
    parser.add_argument("--text", action="store_true", help="print it as text")


def run(args: argparse.Namespace) -> int:
    """Write the picture, or print the text."""
    algorithm = named.find_algorithm(args)
    if not args.text and args.output is None:
        raise UsageError("say where to write the picture, as in -o ring.svg, or take --text")
    if args.output is not None and args.output.suffix.lower() != ".svg":
        raise UsageError(f"-o {args.output}: the picture is an SVG; needs a name that ends in .svg")
    if args.output is not None:
        check_writable("-o", args.output)
    try:
        picture = "" if args.output is None else draw_svg(algorithm, args.ranks)
        text = draw_text(algorithm, args.ranks) if args.text else ""
    except ValueError as error:
        raise UsageError(str(error)) from error
    if args.output is not None:
        with written("-o", args.output) as file:
            file.write(picture.encode())
        what = f"{algorithm.collective.name} {algorithm.spec}, {count_text(args.ranks, 'rank')}"
        print(f"{args.output}: {what}")
    print(text, end="")
    return 0
