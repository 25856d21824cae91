"""The options of ``python -m collectives bench``, and the settings that they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from collectives.bench import limits
from collectives.bench.settings import (
    AUTO,
    COMPARED,
    DTYPES,
    EXECUTORS,
    LEAST,
    MODES,
    MOST,
    PLACEMENTS,
    UNEVEN,
    Settings,
)
from collectives.collective import BARRIER, COLLECTIVES, Collective
from collectives.commands import named, ranks
from collectives.commands.arguments import (
    UsageError,
    byte_sizes,
    file_name,
    names,
    positive,
    seconds,
)
from collectives.op import OPS
from collectives.registry import REGISTRY
from collectives.table import Table
from collectives.table_reader import TableError

ALL = "all"
SUITES = ("standard",)
SIZES = "8:64M"
_NONE: Mapping[str, str] = MappingProxyType({})
_FIXED = ("executor", "placement", "mode", "dtype", "op")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    named.add(parser, known=(*_known(), ALL))
    parser.add_argument(
        "--suite",
        choices=SUITES,
        help="instead of a collective: allreduce with each executor beside the library, at the "
        "lengths and against the limits that this library holds itself to",
    )
    ranks.add(parser)
    # What the process that starts the ranks has found out before.
    parser.add_argument("--facts", type=limits.load, help=argparse.SUPPRESS)
    parser.add_argument(
        "--bytes",
        "--sizes",
        dest="sizes",
        type=byte_sizes,
        metavar="BYTES",
        help=f"8,1K,64K or, doubling, 8:64M ({SIZES})",
    )
    parser.add_argument(
        "--executor",
        type=_some(EXECUTORS, AUTO),
        metavar="NAMES",
        help=f"{', '.join(EXECUTORS)}, {ALL} that there are, or the one that is taken where nobody "
        f"says: {AUTO} (the default)",
    )
    parser.add_argument(
        "--placement",
        type=_some(PLACEMENTS),
        metavar="NAMES",
        help="where the buffers lie: private memory (the default), the window that the ranks of a "
        f"node share, or {ALL}: private,window",
    )
    parser.add_argument(
        "--mode",
        type=_some(MODES),
        metavar="NAMES",
        help=f"{', '.join(MODES)}, or {ALL}. The first two run a plan; call: one call with the "
        "making of the plan; overlap: start, compute for as long as the collective takes, wait; "
        "overlap-test: and test while computing; overlap-background: with the plan in a thread. "
        "Default: in-place, or out-of-place where a collective has no other",
    )
    parser.add_argument(
        "--compare",
        type=_some(COMPARED, spellings={"native": "library"}),
        metavar="NAMES",
        help="also keep rows of the MPI library's own calls (library; native is another spelling, "
        "and not the executor of that name), and of Gloo (gloo; needs torch)",
    )
    parser.add_argument(
        "--table",
        type=_table,
        metavar="FILE",
        help="what auto goes by, and the curves of the model: as python -m collectives tune "
        "wrote it",
    )
    parser.add_argument(
        "--dtype", metavar="NAME", help=f"{', '.join(DTYPES)}; default: {DTYPES[0]}"
    )
    parser.add_argument("--op", metavar="NAME", help=f"{', '.join(OPS)}; default: SUM")
    parser.add_argument(
        "--batch",
        type=positive,
        metavar="N",
        help="calls in a row that are timed as one (1): the time of a call in a tight loop",
    )
    parser.add_argument(
        "--budget",
        type=seconds,
        metavar="TIME",
        help=f"for each length (1s; of the suite: {limits.BUDGET:g}s)",
    )
    parser.add_argument(
        "--repeat", type=positive, metavar="N", help=f"at most N runs of each ({MOST})"
    )
    parser.add_argument("--json", type=file_name, metavar="FILE", help="also write the rows there")
    parser.add_argument(
        "--plot",
        type=file_name,
        metavar="FILE",
        help="also draw latency and bus bandwidth against length (.png, .svg or .pdf; needs "
        "matplotlib)",
    )


def suite_settings(args: argparse.Namespace) -> list[Settings]:
    """Return what the suite times.

    Raises:
        UsageError: a word is there that the suite does not take.
    """
    for name in ("names", "collective", "algorithm", *_FIXED):
        if getattr(args, name) not in (None, []):
            raise UsageError(f"--suite {args.suite}: says itself what to time; leave out {name}")
    return [
        limits.settings(
            args.sizes, **_asked(args, "budget", "batch", "compare", "table"), **_runs(args)
        )
    ]


def all_settings(args: argparse.Namespace) -> list[Settings]:
    """Return what to time: for each collective that is named.

    Raises:
        UsageError: a word is not known, or words do not go together.
    """
    for option, known in (("dtype", DTYPES), ("op", tuple(OPS))):
        if getattr(args, option) not in (None, *known):
            raise UsageError(f"--{option} {getattr(args, option)}: there are {', '.join(known)}")
    collectives, algorithms = named.sorted_out(args, (*_known(), ALL), (AUTO,))
    if collectives is None and algorithms is not None and algorithms != [AUTO]:
        spec = next(a for a in algorithms if a != AUTO)
        collectives = [named.one_algorithm(spec, None).collective.name]
    wanted = _collectives(collectives)
    there = [*sorted({name for c, _ in wanted for name in REGISTRY.names(c)}), AUTO]
    for spec in algorithms or ():
        name = spec.partition(":")[0]
        if name not in there:
            raise UsageError(named.unknown(name, [c for c, _ in wanted], there))
    found = [_settings(args, algorithms, *pair) for pair in wanted]
    settings = [s for s in found if s is not None]
    if args.op is not None and not any(s.reduces for s in settings):
        raise UsageError(f"--op {args.op}: {', '.join(s.name for s in settings)}: does not reduce")
    return settings


def _some(
    known: Sequence[str], *other: str, spellings: Mapping[str, str] = _NONE
) -> Callable[[str], tuple[str, ...]]:
    """Return a function that reads a list of names; "all" gives all that are known.

    Args:
        known: the names.
        *other: names that "all" does not stand for.
        spellings: other spellings of some names.
    """

    def read(text: str) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(spellings.get(name, name) for name in names(text)))
        for name in found:
            if name not in (*known, *other, ALL):
                raise argparse.ArgumentTypeError(
                    f"{name!r}: there are {', '.join((*known, *other, ALL))}"
                )
        return (*known, *(n for n in found if n in other)) if ALL in found else found

    return read


def _table(path: str) -> Table:
    try:
        return Table.load(file_name(path))
    except (TableError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _known() -> dict[str, tuple[Collective, bool]]:
    """Return the collectives by name, with and without a v: (collective, whether uneven)."""
    plain = {name: (c, False) for name, c in COLLECTIVES.items()}
    return plain | {f"{name}v": (COLLECTIVES[name], True) for name in UNEVEN}


def _collectives(wanted: Sequence[str] | None) -> list[tuple[Collective, bool]]:
    known = _known()
    if wanted is None:
        raise UsageError(f"say a collective ({', '.join(known)}, {ALL}) or --suite standard")
    if ALL in wanted:
        return list(known.values())
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"no collective {name!r}{named.nearest(name, list(known))}; there are: "
                f"{', '.join(known)}, {ALL}"
            )
    return [known[name] for name in wanted]


def _settings(
    args: argparse.Namespace, wanted: Sequence[str] | None, collective: Collective, uneven: bool
) -> Settings | None:
    """Return the settings of one collective; None where it has none of the algorithms named."""
    algorithms: tuple[str, ...] | None = None
    if wanted is not None:
        there = (AUTO, *REGISTRY.names(collective))
        algorithms = tuple(a for a in wanted if a.partition(":")[0] in there)
        if not algorithms:
            return None
        for spec in algorithms:
            try:
                if spec != AUTO:
                    REGISTRY.get(collective, spec)
            except ValueError as error:
                raise UsageError(str(error)) from None
    sizes = args.sizes or byte_sizes(SIZES)
    return Settings(
        collective=collective,
        algorithms=algorithms,
        sizes=(0,) if collective is BARRIER else tuple(sizes),
        uneven=uneven,
        **_asked(args, "dtype", "budget", "batch", "compare", "table"),
        **_asked(args, executor="executors", placement="placements", mode="modes"),
        op=OPS[args.op or "SUM"],
        **_runs(args),
    )


def _asked(args: argparse.Namespace, *same: str, **renamed: str) -> dict[str, Any]:
    """Return what was asked for, by the names that `Settings` has for it."""
    names_of = dict.fromkeys(same) | renamed
    found = {field or word: getattr(args, word) for word, field in names_of.items()}
    return {field: value for field, value in found.items() if value is not None}


def _runs(args: argparse.Namespace) -> dict[str, Any]:
    if args.repeat is None:
        return {}
    return {"least": min(LEAST, args.repeat), "most": args.repeat}
