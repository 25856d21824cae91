"""``python -m collectives verify``: prove the algorithms."""

from __future__ import annotations

import argparse
import time

from collectives.commands import named
from collectives.commands.arguments import MAX_PROVED, rank_counts
from collectives.units import count_text
from collectives.verify import variants, verify


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser)
    parser.add_argument(
        "-n",
        "--ranks",
        "--sizes",
        type=rank_counts,
        default=list(range(1, 34)),
        metavar="RANKS",
        help="numbers of ranks to prove for: 1:33 (both included), or 2,3,8; default 1:33; "
        f"each at most {MAX_PROVED}",
    )
    parser.add_argument(
        "--tunables",
        action="store_true",
        help="also with each value of each tunable that a tuner tries, one at a time",
    )


def run(args: argparse.Namespace) -> int:
    """Print a line for each algorithm and the number of proofs; 1 if one failed."""
    chosen = named.find_algorithms(*named.sorted_out(args))
    width = max(len(a.spec) for a in chosen) + 2
    proved = failed = 0
    for a in chosen:
        begin = time.perf_counter()
        messages, error = 0, ""
        for size in args.ranks:
            for variant in (a, *(variants(a, size) if args.tunables else ())):
                try:
                    messages += verify(variant, size).messages
                    proved += 1
                except ValueError as e:  # a ScheduleError, or too many ranks for a proof in memory
                    failed += 1
                    error = error or str(e)
        label = f"{a.collective.name:16}{a.spec:{width}}"
        if error:
            print(f"{label}FAILED  {error}", flush=True)
        else:
            took = time.perf_counter() - begin
            print(f"{label}proved  {messages:8} messages  {took:6.2f} s", flush=True)
    counts = len(args.ranks)
    total = (
        f"{count_text(len(chosen), 'algorithm')} x {counts} "
        f"{'number' if counts == 1 else 'numbers'} of ranks: "
        f"{count_text(proved, 'schedule')} proved"
    )
    print(f"{total}, {failed} failed" if failed else total)
    return 1 if failed else 0
