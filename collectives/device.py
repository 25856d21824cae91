"""Arrays of other libraries, and whether MPI may be handed the memory of a device."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from collectives.memory import is_array, namespace, on_device

HOST_KINDS = (1, 3, 11)
"""Devices of DLPack whose memory the host reads: CPU, and pinned memory of CUDA and ROCm."""

CUDA_KINDS = (2, 13)
"""Devices of DLPack that cupy reads: CUDA, and managed memory of CUDA."""

TRIAL_SECONDS = 60.0
"""A trial that lasts longer hangs."""

_LAUNCHER = (
    *("PMI_", "PMIX_", "PALS_", "HYDRA_", "HYDI_", "SLURM_", "PRTE_", "FLUX_", "MPI_LOCAL"),
    *("OMPI_COMM_", "OMPI_UNIVERSE_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_num_procs"),
)
"""How the variables begin by which a launcher tells a process that it is a rank of a job."""


def as_array(name: str, obj: Any, *, writable: bool = True, where: str = "") -> Any:
    """Return an object as an array that plans can be bound to; the memory is the same.

    numpy and cupy arrays are returned as they are. Whatever else offers DLPack or the CUDA array
    interface (tensors of torch, device arrays of numba) becomes an array of numpy where its memory
    is the host's, else one of cupy. Work that is queued on a stream of another library is waited
    for once, here; runs of a plan wait for the current stream of cupy only, so make the other
    library's stream current (``cupy.cuda.ExternalStream``) where it is not the default one.

    Args:
        name: of the argument, for the message.
        obj: the object.
        writable: it must not be read-only.
        where: the end of the message, as " (rank 0 of 2)".

    Raises:
        TypeError: it is no array, of a device or dtype that is not known here, or it lies on an
            NVIDIA device and there is no cupy.
        ValueError: it is read-only, masked, or lies on another device than the current one.
    """
    if isinstance(obj, np.ndarray):
        return obj  # what else numpy arrays need is checked by who takes them
    array = obj if is_array(obj) else _converted(name, obj, writable, where)
    if writable and isinstance(array, np.ndarray) and not array.flags.writeable:
        raise ValueError(
            f"{name}: the {type(obj).__name__} is read-only, or does not say that it may be "
            f"written to, which takes DLPack 1.0; the result is stored in it{where}"
        )
    if on_device(array):
        device, current = array.device.id, namespace(array).cuda.Device().id
        if device != current:
            raise ValueError(
                f"{name}: lies on device {device}, and the current device is {current}; use "
                f"cupy.cuda.Device({device}).use(){where}"
            )
    return array


def _converted(name: str, obj: Any, writable: bool, where: str) -> Any:
    kind, number = _dlpack_device(obj)
    if kind in HOST_KINDS:
        return _from_dlpack(name, obj, np, where)
    if kind in CUDA_KINDS:
        return _from_dlpack(name, obj, _cupy(name, obj, where), where)
    interface = _cuda_interface(name, obj, where)
    if interface is None:
        what = "" if kind is None else f" on device {(kind, number)} of DLPack"
        raise TypeError(
            f"{name}: is a {type(obj).__name__}{what}; needs a numpy or cupy array, or an object "
            f"with DLPack or the CUDA array interface{where}"
        )
    if interface.get("mask") is not None:
        raise ValueError(f"{name}: is masked; fill it and pass the plain array{where}")
    if writable and interface["data"][1]:
        raise ValueError(f"{name}: is read-only; the result is stored in it{where}")
    return _cupy(name, obj, where).asarray(obj)


def _dlpack_device(obj: Any) -> tuple[int | None, int]:
    if not (hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")):
        return None, 0
    kind, number = obj.__dlpack_device__()
    return int(kind), int(number)


def _from_dlpack(name: str, obj: Any, module: Any, where: str) -> Any:
    try:
        if str(getattr(obj, "dtype", "")) == "torch.bfloat16":  # which numpy's DLPack does not know
            import ml_dtypes

            bits = module.from_dlpack(obj.view(sys.modules["torch"].int16))
            return bits.view(ml_dtypes.bfloat16)
        return module.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError, ImportError) as error:
        raise _unreadable(name, obj, error, where) from error


def _cuda_interface(name: str, obj: Any, where: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] | None = getattr(obj, "__cuda_array_interface__", None)
    except RuntimeError as error:  # of a tensor that requires a gradient
        raise _unreadable(name, obj, error, where) from error
    return found


def _unreadable(name: str, obj: Any, error: Exception, where: str) -> TypeError:
    return TypeError(f"{name}: the {type(obj).__name__} cannot be read ({error}){where}")


def _cupy(name: str, obj: Any, where: str) -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise TypeError(
            f"{name}: is a {type(obj).__name__} on a device, which takes cupy ({error}); "
            f"pip install 'hpcdl[cuda]'{where}"
        ) from error


def mpi_says_cuda_aware() -> bool:
    """Return whether the MPI in this process says that it takes device pointers.

    The answer is the same on all ranks that have a device. A library that has no function to ask
    has said nothing; before MPI is started none has.
    """
    from mpi4py import MPI

    from collectives.launch import libmpi_path

    return MPI.Is_initialized() and _says(ctypes.CDLL(libmpi_path()))


def _says(library: Any) -> bool:
    query = getattr(library, "MPIX_Query_cuda_support", None)
    if query is not None:
        return bool(query())
    query = getattr(library, "MPIX_GPU_query_support", None)  # of Cray MPICH
    found, cuda = ctypes.c_int(0), 0
    return query is not None and query(cuda, ctypes.byref(found)) == 0 and bool(found.value)


def mpi_is_cuda_aware() -> bool:
    """Return whether MPI may be handed device memory: it says so, and a trial did not fail.

    Libraries are known to say so and to crash all the same, so a process of its own tries first.
    """
    return mpi_says_cuda_aware() and _tried("cupy")


@lru_cache(maxsize=1)
def _tried(module: str) -> bool:
    right = trial(module)
    if right is False:
        warnings.warn(
            "this MPI says that it is CUDA-aware, but a trial with device memory failed; messages "
            "go through host memory",
            stacklevel=2,
        )
    return right is not False


def trial(module: str = "cupy", seconds: float = TRIAL_SECONDS) -> bool | None:
    """Try in a child process whether MPI takes device memory (see `collectives.cuda_trial`).

    The child is no rank of this job: it is not told what the launcher told this process.

    Args:
        module: whose arrays; "numpy" tries the trial itself.
        seconds: after which a transfer counts as hanging.

    Returns:
        Whether it does; None where the trial did not come to that: a device that one process has
        to itself, or an MPI that cannot be started without a launcher.
    """
    from collectives.launch import libmpi_path

    env = {k: v for k, v in os.environ.items() if not k.startswith(_LAUNCHER)}
    env["MPI4PY_LIBMPI"] = libmpi_path()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "collectives.cuda_trial", module],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
        )
        said = done.stdout
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
    lines = said.decode().split()
    if "ready" not in lines:
        return None
    return "right" in lines
