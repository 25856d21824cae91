"""``python -m collectives simulate``: the time of a schedule on any number of ranks."""

from __future__ import annotations

import argparse
import re
import time

import numpy as np

from collectives.closed_form import closed_form
from collectives.commands.arguments import (
    UsageError,
    add_collective,
    bytes_text,
    find_algorithm,
    nbytes,
    positive,
    ranks_up_to,
    seconds,
    time_text,
)
from collectives.model import Model
from collectives.simulate import simulate

MAX_RANKS = 2_000_000
"""The most ranks that are simulated: a round takes vectors of that length, and there are many."""

MIN_RATE = 1e-9
"""The least bandwidth, in GB/s: a byte a second."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    default = Model()
    parser.add_argument("algorithm", help="as 'list' shows it: ring, rabenseifner, ...")
    parser.add_argument(
        "--ranks",
        type=ranks_up_to(MAX_RANKS),
        required=True,
        metavar="P",
        help=f"at most {MAX_RANKS}",
    )
    parser.add_argument(
        "--bytes", type=nbytes, required=True, metavar="N", help="buffer of a rank: 8, 64K, 100M"
    )
    add_collective(parser)
    parser.add_argument(
        "--latency", type=seconds, default=default.latency, metavar="L", help="on the wire (2us)"
    )
    parser.add_argument(
        "--bandwidth",
        type=float,
        default=1e-9 / default.byte_time,
        metavar="GB/S",
        help="of a rank's link, 1/G (12.5)",
    )
    parser.add_argument(
        "--reduction",
        type=float,
        default=1e-9 / default.reduce_time,
        metavar="GB/S",
        help="at which a rank sums what arrives, 1/c (10)",
    )
    parser.add_argument(
        "--overhead", type=seconds, default=0.0, metavar="o", help="of the processor, each end (0)"
    )
    parser.add_argument(
        "--gap", type=seconds, default=0.0, metavar="g", help="least, between two messages (0)"
    )
    parser.add_argument(
        "--straggler",
        type=_straggler,
        action="append",
        default=[],
        metavar="RANK:TIME",
        help="let a rank begin later, as in 3:1ms; may be repeated",
    )
    parser.add_argument(
        "--element-bytes",
        type=positive,
        metavar="N",
        help="cut blocks between elements of N bytes, as a run does; default: all equally long",
    )


def run(args: argparse.Namespace) -> int:
    """Print the time, and the closed form beside it where one is known."""
    algorithm = find_algorithm(args.algorithm, args.collective)
    for name in ("bandwidth", "reduction"):
        if not getattr(args, name) >= MIN_RATE:
            raise UsageError(
                f"--{name} {getattr(args, name)}: needs a number of GB/s, {MIN_RATE:g} or more"
            )
    model = Model(
        args.latency, 1e-9 / args.bandwidth, 1e-9 / args.reduction, args.overhead, args.gap
    )
    start = np.zeros(args.ranks)
    for rank, late in args.straggler:
        if rank >= args.ranks:
            raise UsageError(f"--straggler {rank}: there are ranks 0 to {args.ranks - 1}")
        start[rank] = late
    if args.element_bytes and args.bytes % args.element_bytes:
        raise UsageError(f"--element-bytes {args.element_bytes}: does not divide {args.bytes}")
    # The cuts between blocks are computed with 64 bits.
    if args.element_bytes and 2 * args.ranks * (args.bytes // args.element_bytes) >= 1 << 63:
        raise UsageError(f"--bytes {args.bytes}: too many elements for {args.ranks} ranks")
    begin = time.perf_counter()
    done = simulate(
        algorithm, args.ranks, args.bytes, model, start=start, element_bytes=args.element_bytes
    )
    took = time.perf_counter() - begin
    print(f"{algorithm.collective.name} {algorithm.name}, {args.ranks} ranks, ", end="")
    print(f"{bytes_text(args.bytes)} each")
    print(
        f"model        L {time_text(model.latency)}, 1/G {args.bandwidth:g} GB/s, 1/c "
        f"{args.reduction:g} GB/s, o {time_text(model.overhead)}, g {time_text(model.gap)}"
    )
    print(f"time         {time_text(done.seconds)} (first rank done after ", end="")
    print(f"{time_text(float(done.finish.min()))})")
    print(f"rounds       {done.rounds}")
    print(
        f"messages     {int(done.messages.sum())}; of one rank "
        f"{int(done.messages.min())} to {int(done.messages.max())}"
    )
    print(
        f"sent         {done.nbytes.sum():.0f} bytes; by one rank "
        f"{done.nbytes.min():.0f} to {done.nbytes.max():.0f}"
    )
    form = closed_form(algorithm, args.ranks, args.bytes, model)
    if form is None or args.straggler:
        print("closed form  none known for this case")
    else:
        value = form.seconds(args.ranks, args.bytes, model)
        difference = abs(done.seconds - value) / value if value else 0.0
        print(f"closed form  {time_text(value)}, relative difference {difference:.1e}")
        print(f"             = {form.text}, t(b) = L + 2 o + b G")
    print(f"simulated in {took:.2f} s")
    return 0


def _straggler(text: str) -> tuple[int, float]:
    rank, colon, late = text.partition(":")
    if not colon or not re.fullmatch("[0-9]{1,18}", rank):
        raise argparse.ArgumentTypeError(f"{text!r} is not RANK:TIME, as in 3:1ms")
    return int(rank), seconds(late)
