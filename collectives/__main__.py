"""``python -m collectives``: list, verify, simulate, draw, bench, tune, explain and run."""

from __future__ import annotations

import errno
import io
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence
from importlib import metadata

from collectives.collective import COLLECTIVES
from collectives.commands import bench, draw, explain, run, simulate, tune, verify
from collectives.commands import list as list_
from collectives.commands.arguments import Parser, UsageError
from collectives.commands.arguments import names as read_names
from collectives.commands.files import is_open, write_no_more
from collectives.commands.named import nearest

COMMANDS = {
    "list": (
        list_,
        "show the algorithms",
        """\
python -m collectives list
python -m collectives list allreduce --ranks 64
python -m collectives list ring""",
    ),
    "verify": (
        verify,
        "prove the algorithms, for each number of ranks",
        """\
python -m collectives verify
python -m collectives verify --ranks 1:33
python -m collectives verify allreduce --ranks 1:8 --tunables
python -m collectives verify ring,tree --collective allreduce --ranks 2,4,100""",
    ),
    "simulate": (
        simulate,
        "predict the time of an algorithm on any number of ranks",
        """\
python -m collectives simulate ring --ranks 10000 --bytes 100M
python -m collectives simulate rabenseifner --ranks 64 --bytes 1M --latency 1us --bandwidth 25
python -m collectives simulate bcast binomial --ranks 16 --bytes 8K --straggler 3:1ms
python -m collectives simulate chain:segments=64 -n 64 --bytes 64M --goal chain.goal
python -m collectives simulate ring -n 64 --bytes 1M --nodes 8 --latency 300ns --latency-between 2us
python -m collectives simulate tree -n 64 --bytes 1M --noise 1us:pareto --runs 9 --straggler 7:2""",
    ),
    "draw": (
        draw,
        "draw a space-time diagram of an algorithm",
        """\
python -m collectives draw ring --ranks 8 -o ring.svg
python -m collectives draw bcast chain:segments=4 --ranks 6 -o chain.svg
python -m collectives draw rabenseifner --ranks 4 --text""",
    ),
    "bench": (
        bench,
        "time the algorithms beside the MPI library's own calls",
        """\
python -m collectives bench allreduce --ranks 2 --bytes 8:64M
python -m collectives bench allreduce ring --ranks 4 --bytes 8,1K,64K,1M --json r.json
python -m collectives bench allreduce --executor all --placement all --algorithm auto --plot r.svg
python -m collectives bench all --bytes 1K,1M --algorithm auto --mode all --compare library,gloo
python -m collectives bench --suite standard
srun -N 2 --ntasks-per-node 4 python -m collectives bench bcast --bytes 1M""",
    ),
    "tune": (
        tune,
        "measure this machine, and write which algorithm is best when",
        """\
python -m collectives tune -n 2 -o table.toml
python -m collectives tune -n 4 --collective allreduce,bcast --budget 60s -o table.toml
python -m collectives tune -n 2 --check table.toml
srun -N 2 --ntasks-per-node 4 python -m collectives tune -o table.toml""",
    ),
    "explain": (
        explain,
        "say which algorithm is taken, why, and what the others take",
        """\
python -m collectives explain allreduce -n 4 --bytes 1MiB
python -m collectives explain allreduce -n 4 --bytes 1MiB --table table.toml
python -m collectives explain bcast -n 2 --bytes 64K --executor python
python -m collectives explain allreduce -n 64 --bytes 1M --nodes 8 --latency-between 5us""",
    ),
    "run": (
        run,
        "run a program of mpi4py on these collectives, unchanged",
        """\
mpiexec -n 4 python -m collectives run --allreduce ring program.py ARGS
python -m collectives run -n 4 --report program.py ARGS
python -m collectives run -n 2 --table table.toml --bcast library -m package.module ARGS""",
    ),
}


_EXAMPLE = """\
an example:
  python -m collectives draw ring --ranks 4 --text

'python -m collectives COMMAND --help' shows options and examples; so does 'help COMMAND'."""

_NOBODY_READS = 141
"""The exit code where the reader of the output has gone: that of a program which SIGPIPE ends."""

_INTERRUPTED = 130
"""The exit code after Ctrl-C: that of a program which SIGINT ends."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0, 1 for a failure, 2 for a wrong word."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(words)
        finally:
            if is_open(sys.stdout):
                sys.stdout.flush()
    except BrokenPipeError:
        # As in ``| head``.
        write_no_more()
        return _NOBODY_READS
    except KeyboardInterrupt:
        return _INTERRUPTED
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename:
            raise
        write_no_more()
        print(f"python -m collectives: error: standard output: {error.strerror}", file=sys.stderr)
        return 1


def _run(words: list[str]) -> int:
    parser = Parser(
        prog="python -m collectives",
        description="MPI collectives as schedules: list, prove, simulate, draw and time them.",
        epilog=_EXAMPLE,
    )
    parser.add_argument("--version", action="version", version=f"collectives {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    parsers = {}
    for name, (module, summary, examples) in COMMANDS.items():
        epilog = "examples:\n" + "".join(f"  {line}\n" for line in examples.splitlines())
        parsers[name] = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=epilog,
            allow_abbrev=name != "run",  # options of a program that is run are not ours
        )
        module.add(parsers[name])
    helped = words[:1] == ["help"]
    if helped:
        words = words[1:]
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        known = [*COMMANDS]
        parser.error(
            f"no command {words[0]!r}{nearest(words[0], known)}; there are: {', '.join(known)}"
        )
    if helped or not words:
        parsers.get(words[0] if words else "", parser).print_help()
        return 0
    args, others = parser.parse_known_args(words)
    if args.command is None:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    # Names may stand before and behind options, where argparse takes the first ones only.
    named = hasattr(args, "names") and not any(word.startswith("-") for word in others)
    if others and not named:
        unknown = next((word for word in others if word.startswith("-")), others[0])
        options = [*parsers[args.command]._option_string_actions]
        meant = nearest(unknown.partition("=")[0], options)
        if unknown in COLLECTIVES and "--collective" in options:
            meant = f" (did you mean --collective {unknown}?)"
        shown = f"'python -m collectives {args.command} --help' shows what there is"
        parsers[args.command].error(
            f"unrecognized arguments: {' '.join(others)}{meant or f'; {shown}'}"
        )
    args.argv = words
    if args.command != "run" and isinstance(sys.stdout, io.TextIOWrapper):
        # Papers and files have names that not every encoding has; a program keeps its output.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if named:
            args.names = [*args.names, *map(read_names, others)]
        code: int = COMMANDS[args.command][0].run(args)
    except (UsageError, ArgumentTypeError) as error:
        parsers[args.command].error(str(error))
    return code


def _version() -> str:
    try:
        return metadata.version("hpcdl")
    except metadata.PackageNotFoundError:
        return "of a checkout that is not installed"


if __name__ == "__main__":
    sys.exit(main())
