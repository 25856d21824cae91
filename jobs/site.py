"""What is special about one cluster: a frozen record, read from a TOML file."""

import difflib
import re
import sys
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from jobs import check

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SRUN = re.compile(r"pmi2|pmix(_v[1-9][0-9]*)?|cray_shasta")

#: Options of sbatch that a job sets, so that no site file or caller may.
RESERVED = frozenset(
    {
        "--job-name",
        "--output",
        "--open-mode",
        "--nodes",
        "--ntasks",
        "--ntasks-per-node",
        "--cpus-per-task",
        "--time",
        "--signal",
        "--requeue",
        "--no-requeue",
    }
)


@dataclass(frozen=True)
class Site:
    """One cluster.

    Attributes:
        name: what the site is called; of a site file, its name without ``.toml``.
        launcher: how the ranks start and find each other. ``pmi2`` (MPICH, Intel MPI), ``pmix`` or
            ``pmix_vN`` (Open MPI) and ``cray_shasta`` are flavours of ``srun --mpi``; ``mpiexec``
            is the launcher of the MPI itself.
        launcher_args: further arguments of the launcher.
        directives: further options of sbatch, as ``--account=physics``.
        setup: lines of bash that come before the launch, as ``module load mpich``.
        cpus_per_node: CPUs of a node, as Slurm counts them; 0 is not checked.
        max_nodes: most nodes a job may have; 0 is not checked.
        max_minutes: longest time limit of a job, in minutes; 0 is not checked.

    Raises:
        ValueError: a value is not allowed; the message has its name, the value and what is allowed.
    """

    name: str
    launcher: str = "pmi2"
    launcher_args: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    cpus_per_node: int = 0
    max_nodes: int = 0
    max_minutes: int = 0

    def __post_init__(self) -> None:
        check.name("name", self.name)
        check.line("launcher", self.launcher)
        if self.launcher != "mpiexec" and not _SRUN.fullmatch(self.launcher):
            raise ValueError(
                f"launcher is {self.launcher!r}, but must be 'pmi2', 'pmix', 'pmix_vN', "
                "'cray_shasta' or 'mpiexec'"
            )
        check.lines("launcher_args", self.launcher_args)
        check.directives("directives", self.directives, RESERVED)
        check.lines("setup", self.setup)
        for limit in ("cpus_per_node", "max_nodes", "max_minutes"):
            check.number(limit, getattr(self, limit), 0, 10_000_000)


def shipped_sites() -> list[str]:
    """Names of the sites that come with the package."""
    files = resources.files("jobs").joinpath("sites").iterdir()
    return sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml"))


def load_site(name_or_path: str) -> Site:
    """Read a site file.

    Args:
        name_or_path: the name of a shipped site, or the path of a file that ends in ``.toml``.

    Raises:
        ValueError: there is no such site, the file is not TOML, a key is unknown, or a value is not
            allowed; the message has the file, the key, the value and what is allowed.
    """
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"site file {name_or_path!r} cannot be read: {error}") from error
        return _parse(text, name=path.stem, source=name_or_path)
    if name_or_path not in shipped_sites():
        raise ValueError(
            f"site is {name_or_path!r}, but must be one of {', '.join(shipped_sites())}, "
            "or the path of a file that ends in .toml"
        )
    file = resources.files("jobs").joinpath("sites", f"{name_or_path}.toml")
    return _parse(file.read_text(encoding="utf-8"), name=name_or_path, source=file.name)


def _parse(text: str, name: str, source: str) -> Site:
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"site file {source!r} is not TOML: {error}") from error
    known = [field.name for field in fields(Site) if field.name != "name"]
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(
                f"site file {source!r} has the unknown key {key!r}{hint} "
                f"Allowed: {', '.join(known)}"
            )
    values: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in table.items()
    }
    try:
        return Site(name=name, **values)
    except ValueError as error:
        raise ValueError(f"site file {source!r}: {error}") from error
