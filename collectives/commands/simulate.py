"""``python -m collectives simulate``: the time of a schedule on any number of ranks."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

import numpy as np

from collectives.closed_form import closed_form
from collectives.collective import ALLTOALL, BARRIER
from collectives.commands import named, network
from collectives.commands.arguments import (
    UsageError,
    add_bytes,
    add_ranks,
    bytes_of,
    file_name,
    positive,
)
from collectives.commands.files import check_writable, is_open, written
from collectives.commands.rounds import RoundsShown, rounds_of
from collectives.goal import goal_lines
from collectives.model import Model
from collectives.registry import Algorithm
from collectives.simulate import Simulation, simulate
from collectives.units import bytes_text, count_text, model_lines, time_text

MAX_RANKS = 2_000_000
"""The most ranks that are simulated: a round takes vectors of that length, and there are many."""

MAX_GOAL = 2_000_000
"""The most messages that are written to a file."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser)
    add_ranks(parser, MAX_RANKS)
    add_bytes(parser)
    parser.add_argument(
        "--element-bytes",
        type=positive,
        metavar="N",
        help="cut blocks between elements of N bytes, as a run does; default: all equally long",
    )
    parser.add_argument(
        "--goal",
        type=file_name,
        metavar="FILE",
        help="also write the schedule as GOAL text (LogGOPSim): without costs, noise or stragglers",
    )
    network.add_costs(parser)
    network.add_chance(parser)


def run(args: argparse.Namespace) -> int:
    """Print the time, and the closed form beside it where one is known."""
    algorithm = named.find_algorithm(args)
    nbytes = bytes_of(args, algorithm.collective)
    model = network.costs(args, args.ranks) or Model()
    noise = network.noise(args)
    start, slow = network.stragglers(args, args.ranks)
    if noise is None and args.runs > 1:
        raise UsageError(f"--runs {args.runs}: without --noise or --interrupt all are alike")
    if args.element_bytes and nbytes % args.element_bytes:
        raise UsageError(f"--element-bytes {args.element_bytes}: does not divide {nbytes}")
    cut = args.element_bytes or (1 if args.goal is not None else 0)
    if cut and algorithm.collective is ALLTOALL and nbytes // cut % args.ranks:
        raise UsageError(
            f"--bytes {nbytes}: {nbytes // cut} elements of {cut} bytes, which {args.ranks} ranks "
            f"do not divide"
        )
    # The cuts between blocks are computed with 64 bits.
    if args.element_bytes and 2 * args.ranks * (nbytes // args.element_bytes) >= 1 << 63:
        raise UsageError(f"--bytes {nbytes}: too many elements for {args.ranks} ranks")
    if args.goal is not None:
        check_writable("--goal", args.goal)
    shown = None
    if is_open(sys.stderr) and sys.stderr.isatty():
        shown = RoundsShown(sys.stderr, rounds_of(algorithm, args.ranks), args.runs)
    begin = time.perf_counter()
    try:
        done = [
            simulate(
                algorithm,
                args.ranks,
                nbytes,
                model,
                start=start,
                slow=slow,
                noise=noise and replace(noise, seed=noise.seed + k),
                element_bytes=args.element_bytes,
                played=shown,
            )
            for k in range(args.runs)
        ]
    finally:
        if shown is not None:
            shown.end()
    took = time.perf_counter() - begin
    messages = int(done[0].messages.sum())
    if args.goal is not None and messages > MAX_GOAL:
        raise UsageError(f"--goal {args.goal}: {messages} messages; the most is {MAX_GOAL}")
    each = "" if algorithm.collective is BARRIER else f", {bytes_text(nbytes)} each"
    print(f"{algorithm.collective.name} {algorithm.spec}, {count_text(args.ranks, 'rank')}{each}")
    print(*model_lines(model, args.ranks), *network.chance_lines(args), sep="\n")
    _print_result(done)
    if isinstance(model, Model) and noise is None and not args.straggler:
        _print_form(algorithm, args.ranks, nbytes, model, done[0])
    else:
        print("closed form  none: it is for equal ranks and links, without noise")
    print(f"simulated in {took:.2f} s")
    if args.goal is not None:
        within = model if isinstance(model, Model) else model.within
        _write_goal(args, algorithm, within)
    return 0


def _print_result(done: list[Simulation]) -> None:
    first, total = done[0], np.array([d.seconds for d in done])
    if len(done) == 1:
        print(f"time         {time_text(first.seconds)} (first rank done after ", end="")
        print(f"{time_text(float(first.finish.min()))})")
    else:
        print(
            f"time         {time_text(float(np.median(total)))} in the median of {len(done)} runs"
        )
        print(f"             {time_text(total.min())} to {time_text(total.max())}")
    print(f"rounds       {first.rounds}")
    print(
        f"messages     {int(first.messages.sum())}; of one rank "
        f"{int(first.messages.min())} to {int(first.messages.max())}"
    )
    print(
        f"sent         {first.nbytes.sum():.0f} bytes; by one rank "
        f"{first.nbytes.min():.0f} to {first.nbytes.max():.0f}"
    )


def _print_form(
    algorithm: Algorithm, size: int, nbytes: int, model: Model, done: Simulation
) -> None:
    """Print the closed form beside the simulated time."""
    form = closed_form(algorithm, size, nbytes, model)
    if form is None:
        print("closed form  none known for this case")
        return
    value = form.seconds(size, nbytes, model)
    difference = abs(done.seconds - value) / value if value else 0.0
    print(f"closed form  {time_text(value)}, relative difference {difference:.1e}")
    print(f"             = {form.text}{_symbols(form.text)}")


def _symbols(text: str) -> str:
    """Return what the symbols of a formula stand for that the lines above do not show."""
    meanings = {"t": "L + 2 o + b G", "u": "max(o + b G, g)"}
    return "".join(f", {s}(b) = {m}" for s, m in meanings.items() if f"{s}(" in text)


def _write_goal(args: argparse.Namespace, algorithm: Algorithm, model: Model) -> None:
    lines = goal_lines(
        algorithm, args.ranks, args.bytes or 0, model, element_bytes=args.element_bytes or 1
    )
    with written("--goal", args.goal) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    print(f"written      {args.goal}")
