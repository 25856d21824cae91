"""Options that describe a network: its costs, its nodes, noise, and ranks that are slow."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from collectives.commands.arguments import NUMBER, UsageError, natural, positive, rate, seconds
from collectives.model import Model
from collectives.noise import DISTRIBUTIONS, Noise
from collectives.topology import Topology
from collectives.units import time_text

MAX_FACTOR = 1e9
"""The slowest rank is so many times slower than the others."""


_BETWEEN = {
    "latency": "on the wire between nodes",
    "bandwidth": "of the link of a node",
    "overhead": "of the processor for a message between nodes",
    "gap": "least, between two messages of a node",
}


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that begins late, or that is slow.

    Attributes:
        rank: which.
        late: seconds.
        factor: how many times as long as the others it takes.
    """

    rank: int
    late: float = 0.0
    factor: float = 1.0


def add_costs(parser: argparse.ArgumentParser, defaults: str = "") -> None:
    """Add the options for what messages and sums cost, and for nodes.

    Args:
        parser: of the command.
        defaults: said before "in brackets", of what is taken for a cost that is not given.
    """
    known = Model()
    group = parser.add_argument_group("costs", f"of the network; default: {defaults}in brackets")
    group.add_argument("--latency", type=seconds, metavar="L", help="on the wire (2us)")
    group.add_argument(
        "--bandwidth",
        type=rate,
        metavar="GB/S",
        help=f"of a rank's link, 1/G ({1e-9 / known.byte_time:g})",
    )
    group.add_argument(
        "--reduction",
        type=rate,
        metavar="GB/S",
        help=f"at which a rank sums what arrives, 1/c ({1e-9 / known.reduce_time:g})",
    )
    group.add_argument(
        "--overhead", type=seconds, metavar="o", help="of the processor, each end (0)"
    )
    group.add_argument("--gap", type=seconds, metavar="g", help="least, between two messages (0)")
    nodes = parser.add_argument_group(
        "nodes", "the ranks of a node share its link; the costs above are then those inside a node"
    )
    nodes.add_argument("--nodes", type=positive, metavar="K", help="spread the ranks over K nodes")
    nodes.add_argument(
        "--cyclic", action="store_true", help="in turns; default: consecutive ranks to each node"
    )
    for name, what in _BETWEEN.items():
        per_second = name == "bandwidth"
        nodes.add_argument(
            f"--{name}-between",
            type=rate if per_second else seconds,
            metavar="GB/S" if per_second else "TIME",
            help=f"{what}; default: as inside",
        )


def add_chance(parser: argparse.ArgumentParser) -> None:
    """Add the options for noise and stragglers."""
    chance = parser.add_argument_group("noise and stragglers")
    chance.add_argument(
        "--straggler",
        type=_straggler,
        action="append",
        default=[],
        metavar="RANK:TIME|FACTOR",
        help="a rank that begins late (3:1ms), or takes so many times as long (3:2.5); repeatable",
    )
    chance.add_argument(
        "--noise",
        type=_noise,
        metavar="TIME[:KIND]",
        help=f"let messages be late by TIME in the mean; KIND: {', '.join(DISTRIBUTIONS)}",
    )
    chance.add_argument(
        "--interrupt",
        type=_interrupt,
        metavar="TIME:CHANCE",
        help="hold ranks up for TIME in the mean, each with that chance in each round: 100us:0.01",
    )
    chance.add_argument("--seed", type=natural, metavar="N", help="of the random numbers (0)")
    chance.add_argument(
        "--runs", type=positive, default=1, metavar="N", help="simulate with N seeds (1)"
    )


def costs(args: argparse.Namespace, size: int) -> Model | Topology | None:
    """Return the model that the options describe; None where there are none.

    Raises:
        UsageError: there are more nodes than ranks, or an option is there that needs ``--nodes``.
    """
    inside = ("latency", "bandwidth", "reduction", "overhead", "gap")
    given = {name: getattr(args, name) for name in inside if getattr(args, name) is not None}
    for option, field in (("bandwidth", "byte_time"), ("reduction", "reduce_time")):
        if option in given:
            given[field] = 1e-9 / given.pop(option)
    within = Model(**given)
    between = {
        name: getattr(args, f"{name}_between")
        for name in ("latency", "overhead", "gap")
        if getattr(args, f"{name}_between") is not None
    }
    if args.bandwidth_between is not None:
        between["byte_time"] = 1e-9 / args.bandwidth_between
    if args.nodes is None:
        if between or args.cyclic:
            raise UsageError("--cyclic and the costs between nodes need --nodes K")
        return within if given else None
    if args.nodes > size:
        raise UsageError(f"--nodes {args.nodes}: there are {size} ranks")
    topology = Topology(-(-size // args.nodes), within, replace(within, **between), args.cyclic)
    if topology.nodes(size) != args.nodes:
        raise UsageError(
            f"--nodes {args.nodes}: {size} ranks fill {topology.nodes(size)} nodes of "
            f"{topology.ranks_per_node}; take so many, or another number of ranks"
        )
    return topology


def noise(args: argparse.Namespace) -> Noise | None:
    """Return the noise that the options describe, with the first seed; None: there is none.

    Raises:
        UsageError: there is a seed, but no noise.
    """
    if args.noise is None and args.interrupt is None:
        if args.seed is not None:
            raise UsageError(
                f"--seed {args.seed}: without --noise or --interrupt nothing is random"
            )
        return None
    late, kind = args.noise or (0.0, "exponential")
    interruption, chance = args.interrupt or (0.0, 0.0)
    return Noise(late, interruption, chance, kind, args.seed or 0)


def stragglers(
    args: argparse.Namespace, size: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64] | None]:
    """Return when each rank begins, in seconds, and how slow each is; the latter None: all alike.

    Raises:
        UsageError: there is no such rank.
    """
    start, slow = np.zeros(size), np.ones(size)
    for s in args.straggler:
        if s.rank >= size:
            raise UsageError(f"--straggler {s.rank}: there are ranks 0 to {size - 1}")
        start[s.rank] += s.late
        slow[s.rank] *= s.factor
    return start, None if (slow == 1).all() else slow


def chance_lines(args: argparse.Namespace) -> list[str]:
    """Return lines that tell what `add_chance` was told, each with its title first."""
    lines = [
        f"straggler    rank {s.rank} "
        + (f"begins {time_text(s.late)} late" if s.late else f"takes {s.factor:g} x as long")
        for s in args.straggler
    ]
    late, kind = args.noise or (0.0, "exponential")
    if args.noise is not None:
        lines.append(f"noise        {kind}: messages are late by {time_text(late)} in the mean")
    if args.interrupt is not None:
        held, chance = args.interrupt
        lines.append(
            f"interrupts   {kind}: ranks are held up for {time_text(held)} in the mean, each with "
            f"chance {chance:g} in each round"
        )
    if args.noise is not None or args.interrupt is not None:
        seed = args.seed or 0
        more = f" to {seed + args.runs - 1}" if args.runs > 1 else ""
        lines.append(f"seed         {seed}{more}")
    return lines


def _straggler(text: str) -> Straggler:
    rank, colon, what = text.partition(":")
    if not (colon and what and re.fullmatch("[0-9]{1,18}", rank)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not RANK:TIME nor RANK:FACTOR, as in 3:1ms or 3:2.5"
        )
    factor = re.fullmatch(f"({NUMBER})x?", what, re.IGNORECASE)
    if not factor:
        return Straggler(int(rank), late=seconds(what))
    if not 1 <= float(factor[1]) <= MAX_FACTOR:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a factor is 1 to {MAX_FACTOR:g}; a time has a unit, as in 3:1ms"
        )
    return Straggler(int(rank), factor=float(factor[1]))


def _noise(text: str) -> tuple[float, str]:
    late, colon, kind = text.partition(":")
    kind = kind if colon else "exponential"
    if kind not in DISTRIBUTIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: there is no distribution {kind!r}; there are: {', '.join(DISTRIBUTIONS)}"
        )
    return seconds(late), kind


def _interrupt(text: str) -> tuple[float, float]:
    late, colon, chance = text.partition(":")
    if not (colon and re.fullmatch(NUMBER, chance, re.IGNORECASE) and float(chance) <= 1):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not TIME:CHANCE with a chance from 0 to 1, as in 100us:0.01"
        )
    return seconds(late), float(chance)
