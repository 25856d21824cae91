"""Which collectives and algorithms a command is about, named by position or in options."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence

import collectives.algorithms  # noqa: F401  (fills the registry)
from collectives.collective import ALLREDUCE, COLLECTIVES, Collective
from collectives.commands.arguments import UsageError, names
from collectives.registry import REGISTRY, Algorithm


def add(parser: argparse.ArgumentParser, *, known: Iterable[str] = tuple(COLLECTIVES)) -> None:
    """Add the names and the options ``--collective`` and ``--algorithm``.

    Args:
        parser: of the command.
        known: the names of collectives that the command takes.
    """
    parser.add_argument(
        "names",
        nargs="*",
        type=names,
        metavar="NAME",
        help="a collective or an algorithm, or both: allreduce, ring, bcast chain:segments=8",
    )
    parser.add_argument(
        "--collective", type=names, metavar="NAMES", help=f"the same: {', '.join(known)}"
    )
    parser.add_argument(
        "--algorithm",
        "--algorithms",
        type=names,
        metavar="NAMES",
        help="the same: those that 'list' shows, with tunables if wished: ring,chain:segments=8",
    )


def sorted_out(
    args: argparse.Namespace,
    collectives: Iterable[str] = tuple(COLLECTIVES),
    algorithms: Iterable[str] = (),
) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of collectives and of algorithms that were given; None where there are none.

    Args:
        args: with what `add` has added.
        collectives: the names that stand for collectives.
        algorithms: names that stand for algorithms besides those of the registry.

    Raises:
        UsageError: a name is neither.
    """
    homes, there = list(collectives), [*all_names(), *algorithms]
    found: tuple[list[str], list[str]] = ([*(args.collective or ())], [*(args.algorithm or ())])
    for name in (name for some in args.names for name in some):
        base = name.partition(":")[0]
        if base not in (*homes, *there):
            raise UsageError(
                f"no collective or algorithm {base!r}{nearest(base, (*homes, *there))}; there are "
                f"the collectives {', '.join(homes)} and the algorithms {', '.join(there)}"
            )
        found[base in there].append(name)
    once = [[*dict.fromkeys(some)] for some in found]
    return once[0] or None, once[1] or None


def all_names() -> list[str]:
    """Return the names of all algorithms."""
    return sorted({a.name for a in REGISTRY.all()})


def nearest(name: str, known: Sequence[str]) -> str:
    """Return a question whether another name was meant; "" where none is like it."""
    close = difflib.get_close_matches(name.lower(), known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def find_collectives(wanted: Iterable[str] | None) -> list[Collective]:
    """Return the collectives of these names, or all.

    Raises:
        UsageError: there is none of that name.
    """
    if wanted is None:
        return list(COLLECTIVES.values())
    for name in wanted:
        if name not in COLLECTIVES:
            known = list(COLLECTIVES)
            raise UsageError(
                f"no collective {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
            )
    return [COLLECTIVES[name] for name in wanted]


def find_algorithms(
    collectives: Iterable[str] | None, algorithms: Iterable[str] | None
) -> list[Algorithm]:
    """Return the algorithms of these names in these collectives; None stands for all.

    A name may have tunables: ``chain:segments=8``.

    Raises:
        UsageError: a name or a tunable is unknown.
    """
    homes = find_collectives(collectives)
    among = [REGISTRY.get(c, name) for c in homes for name in REGISTRY.names(c)]
    if algorithms is None:
        return among
    known = sorted({a.name for a in among})
    found = []
    for spec in algorithms:
        name = spec.partition(":")[0]
        if name not in known:
            raise UsageError(unknown(name, homes, known))
        try:
            found += [REGISTRY.get(a.collective, spec) for a in among if a.name == name]
        except ValueError as error:
            raise UsageError(str(error)) from error
    return found


def find_algorithm(args: argparse.Namespace) -> Algorithm:
    """Return the one algorithm that the words name.

    Without a collective it is that of allreduce, or of the only collective that has it.

    Raises:
        UsageError: a name or a tunable is unknown; there is not exactly one algorithm; or several
            collectives, but not allreduce, have it.
    """
    collectives, algorithms = sorted_out(args)
    if algorithms is None:
        homes = find_collectives(collectives or [ALLREDUCE.name])
        there = ", ".join(REGISTRY.names(homes[0]))
        raise UsageError(f"say which algorithm; {homes[0].name} has: {there}")
    for given, what in ((collectives, "collective"), (algorithms, "algorithm")):
        if given is not None and len(given) > 1:
            raise UsageError(f"{' '.join(given)}: needs one {what}")
    return one_algorithm(algorithms[0], collectives[0] if collectives else None)


def one_algorithm(spec: str, collective: str | None) -> Algorithm:
    """Return one algorithm; errors, and without a collective, as of `find_algorithm`."""
    name = spec.partition(":")[0]
    found = find_algorithms(None if collective is None else [collective], [name])
    if collective is None and any(a.collective is ALLREDUCE for a in found):
        found = [a for a in found if a.collective is ALLREDUCE]
    if len(found) > 1:
        homes = [a.collective.name for a in found]
        raise UsageError(
            f"{name} is an algorithm of {', '.join(homes)}: say which with --collective, "
            f"or so: {homes[0]} {name}"
        )
    return find_algorithms([found[0].collective.name], [spec])[0]


def unknown(name: str, homes: Sequence[Collective], known: Sequence[str]) -> str:
    """Return what to say of an algorithm that these collectives do not have, but perhaps others."""
    text = f"no algorithm {name!r}"
    if len(homes) == 1:
        text += f" of {homes[0].name}"
    text += f"{nearest(name, known)}; there are: {', '.join(known)}"
    others = [c.name for c in COLLECTIVES.values() if name in REGISTRY.names(c)]
    return f"{text}; {name} is one of {', '.join(others)}" if others else text
