"""Start programs under the mpiexec that belongs to the MPI in use, and notice a wrong launcher."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from collectives.cores import allowed_cores

if TYPE_CHECKING:
    from mpi4py import MPI


class LaunchError(RuntimeError):
    """The job was not started as it should be. The message says what to do."""

    plain = True


def _mpi() -> Any:
    """Return mpi4py's MPI module. A program that only launches others must not start MPI itself."""
    import mpi4py

    if "mpi4py.MPI" not in sys.modules:
        mpi4py.rc.initialize = False
    from mpi4py import MPI

    return MPI


def libmpi_path() -> str:
    """Return the path of the MPI library that mpi4py has loaded in this process."""

    class Info(ctypes.Structure):
        _fields_ = [
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        ]

    # The symbol is looked up as mpi4py's own module sees it, so this is the library it calls.
    info = Info()
    symbol = ctypes.cast(ctypes.CDLL(_mpi().__file__).MPI_Comm_size, ctypes.c_void_p)
    if not ctypes.CDLL(None).dladdr(symbol, ctypes.byref(info)) or not info.file:
        raise LaunchError("cannot find the MPI library that mpi4py has loaded")
    path: bytes = info.file
    return os.path.realpath(path.decode())


def find_mpiexec() -> str:
    """Return the mpiexec that belongs to the MPI library that mpi4py has loaded.

    It is looked for beside the library (``PREFIX/lib`` -> ``PREFIX/bin``), then on the PATH.

    Raises:
        LaunchError: there is none.
    """
    library = Path(libmpi_path())
    for parent in library.parents[1:4]:
        candidate = parent / "bin" / "mpiexec"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("mpiexec") or shutil.which("mpirun")
    if found is None:
        raise LaunchError(
            f"no mpiexec: mpi4py has loaded {library}, and there is no mpiexec beside it nor on "
            "the PATH. Install an MPI (pip install 'hpcdl[mpich]') or load the module of yours"
        )
    return found


def mpiexec_command(ranks: int, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on ``ranks`` ranks of this machine.

    More ranks than cores are allowed: it is how one tries a program on a laptop.

    Raises:
        ValueError: ``ranks`` is below 1.
        LaunchError: there is no mpiexec.
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks}: needs at least 1")
    command = [find_mpiexec(), "-n", str(ranks)]
    if _mpi().Get_library_version().startswith("Open MPI"):
        command += ["--oversubscribe", "--bind-to", "none"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-run-as-root")
    return [*command, *program]


def launch_environment(ranks: int, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a job of ``ranks`` ranks on this machine.

    What the user has set stays. Else the BLAS of each rank gets its share of the cores; and where
    ranks outnumber cores a waiting MPICH gives its core away instead of spinning on it.
    """
    env = dict(base)
    cores = len(allowed_cores())
    env.setdefault("OMP_NUM_THREADS", str(max(1, cores // ranks)))
    if ranks > cores:
        env.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "20")
        env.setdefault("MPIR_CVAR_POSIX_POLL_FREQUENCY", "20")
    return env


def replace_by_mpiexec(ranks: int, program: Sequence[str]) -> NoReturn:
    """Replace this process by mpiexec, which runs the program: signals and exit code pass through.

    Raises:
        ValueError: ``ranks`` is below 1.
        LaunchError: there is no mpiexec, or this process is an MPI process already.
    """
    job = launcher_size(os.environ)
    if job is not None:
        raise LaunchError(
            f"-n {ranks}: this process was started by an MPI launcher already ({job[0]}="
            f"{job[1]}); leave -n out, it takes the ranks it is given"
        )
    command = mpiexec_command(ranks, program)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it is None where the file was closed before Python began
            stream.flush()
    _open_what_is_closed()
    if hasattr(signal, "SIGPIPE"):
        # Python ignores it, and mpiexec would inherit that, and complain where the reader of its
        # output has gone.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve(command[0], command, launch_environment(ranks, os.environ))


def _open_what_is_closed() -> None:
    """Open input, output and errors where they are closed: an mpiexec may fail without them."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number


def launcher_size(env: Mapping[str, str]) -> tuple[str, int] | None:
    """Return ``(variable, ranks)`` as the launcher of this process has set it, or None.

    The variables are facts that launchers state, not configuration: ``PMI_SIZE`` (MPICH, Intel MPI,
    srun --mpi=pmi2), ``OMPI_COMM_WORLD_SIZE`` (Open MPI), ``SLURM_STEP_NUM_TASKS`` (srun).
    """
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        if env.get(name, "").isdigit():
            return name, int(env[name])
    # In a batch script itself SLURM_PROCID is set too; only srun sets the step's task count.
    if env.get("SLURM_STEP_NUM_TASKS", "").isdigit() and "SLURM_STEP_ID" in env:
        return "SLURM_STEP_NUM_TASKS", int(env["SLURM_STEP_NUM_TASKS"])
    return None


def start_mpi() -> None:
    """Start MPI in this process, unless its launcher belongs to another MPI.

    A program calls this before anything else imports ``mpi4py.MPI``: some libraries do not come
    back from being started by the launcher of another, and say nothing that helps.

    Raises:
        LaunchError: the launcher belongs to another MPI; the message names both.
    """
    import mpi4py

    if "mpi4py.MPI" in sys.modules and _mpi().Is_initialized():
        return
    mpi4py.rc.finalize = True
    check_library()
    _mpi().Init_thread()


def check_library() -> None:
    """Check, before MPI is started, that its library can be that of the launcher.

    Raises:
        LaunchError: the launcher belongs to another MPI; the message names both.
    """
    library = _library()
    ranks = os.environ.get("OMPI_COMM_WORLD_SIZE")
    if ranks is not None and not library.startswith("Open MPI"):
        raise LaunchError(_other_launcher("OMPI_COMM_WORLD_SIZE", int(ranks), library))


def _library() -> str:
    return str(_mpi().Get_library_version()).split("\n")[0].split(",")[0].strip()


def _other_launcher(variable: str, ranks: int, library: str) -> str:
    return (
        f"the launcher started {ranks} processes ({variable}={ranks}), but belongs to another MPI "
        f"than the one in use ({' '.join(library.split())}, {libmpi_path()}): each process would "
        f"be alone in a job of 1. Use {find_mpiexec()}, or under Slurm srun --mpi=pmi2 (MPICH, "
        "Intel MPI) or --mpi=pmix (Open MPI)"
    )


def check_launcher(comm: MPI.Comm, expected: int | None = None) -> None:
    """Check that the job has as many ranks as its launcher started.

    The launcher of one MPI starts N programs that use another MPI: each is then a job of one rank
    of its own, apparently right, and all write the same files. This finds it.

    Args:
        comm: the communicator of all ranks (COMM_WORLD).
        expected: how many ranks there should be, where that is known.

    Raises:
        LaunchError: the sizes differ; the message has both.
    """
    size = comm.Get_size()
    stated = launcher_size(os.environ)
    if stated is not None and stated[1] != size and size == 1:
        raise LaunchError(_other_launcher(*stated, _library()))
    if expected is not None and expected != size:
        raise LaunchError(f"the job was started for {expected} ranks, but MPI sees {size}")
