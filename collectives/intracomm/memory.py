"""The memory of whatever mpi4py takes as a buffer, as an array of bytes."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives.device import HOST_KINDS, as_array
from collectives.intracomm.dlpack import format_of
from collectives.intracomm.kind import BFLOAT16
from collectives.memory import flat


class Opaque:
    """Memory of a device that cannot be reached from here: only MPI may know how.

    Args:
        nbytes: its length.
    """

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes

    def __len__(self) -> int:
        return self._nbytes


_PLAIN = "?bhilqBHILQefdgFDG"
"""Characters that mean the same to numpy and to mpi4py."""


def memory_of(obj: Any, writable: bool) -> tuple[Any, str]:
    """Return the memory of an object, and the format of its elements.

    The object is a numpy array, or has the buffer protocol, DLPack or the CUDA array interface.
    As in mpi4py its memory may lie in the order of C or of Fortran.

    Args:
        obj: the object.
        writable: it must not be read-only.

    Returns:
        A 1-D array of uint8, on the host or on a device, or `Opaque`; and the format of the
        elements, as in the buffer protocol.

    Raises:
        TypeError: it offers no memory.
        BufferError, ValueError: it is not contiguous, or read-only.
    """
    if isinstance(obj, np.ndarray):
        return _of_array(obj, writable)
    try:
        view = memoryview(obj)
    except TypeError:
        return _of_foreign(obj, writable)
    if writable and view.readonly:
        raise BufferError("Object is not writable.")
    if not view.contiguous:
        raise BufferError("the buffer is not contiguous")
    if view.nbytes == 0:
        return np.empty(0, np.uint8), _native(view.format)
    if not view.c_contiguous:
        return _of_array(np.asarray(view), writable)
    return np.frombuffer(view.cast("B"), np.uint8), _native(view.format)


def _of_array(array: np.ndarray[Any, Any], writable: bool) -> tuple[Any, str]:
    if writable and not array.flags.writeable:
        raise ValueError("buffer source array is read-only")
    dtype = array.dtype
    if dtype.isnative and dtype.char in _PLAIN:
        code = dtype.char
    elif dtype.name == BFLOAT16:
        code = BFLOAT16
    else:
        code = _native(np.empty(0, dtype).data.format)
    if not array.flags.c_contiguous:
        if not array.flags.f_contiguous:
            raise BufferError("ndarray is not contiguous")
        array = array.T
    return flat(array).view(np.uint8), code


def _of_foreign(obj: Any, writable: bool) -> tuple[Any, str]:
    """Return the memory of an object with DLPack or the CUDA array interface."""
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        if int(obj.__dlpack_device__()[0]) in HOST_KINDS:
            return _bytes(MPI.buffer.frombuffer(obj, readonly=not writable)), format_of(obj)
    elif not hasattr(obj, "__cuda_array_interface__"):
        raise TypeError("message: expecting buffer or list/tuple")
    array = None
    # Without cupy, or without a device that cupy can use, MPI itself may read this memory.
    with contextlib.suppress(TypeError, RuntimeError):
        array = as_array("message", obj, writable=writable)
    if array is None:
        interface = obj.__cuda_array_interface__
        dtype = np.dtype(interface["typestr"])
        return Opaque(math.prod(interface["shape"]) * dtype.itemsize), dtype.char
    if not array.flags.c_contiguous:
        if not array.flags.f_contiguous:
            raise BufferError("the buffer is not contiguous")
        array = array.T
    dtype = np.dtype(array.dtype)
    return flat(array).view(np.uint8), BFLOAT16 if dtype.name == BFLOAT16 else dtype.char


def _bytes(memory: MPI.buffer) -> np.ndarray[Any, Any]:
    return np.frombuffer(memory.cast("B"), np.uint8) if memory.nbytes else np.empty(0, np.uint8)


def _native(code: str) -> str:
    """Return a format without its byte order.

    Raises:
        BufferError: that is not the machine's.
    """
    order = code[:1]
    if order in ("<", ">") and order != ("<" if sys.byteorder == "little" else ">"):
        raise BufferError(f"format string {code!r} with non-native byte order")
    return code[1:] if order in ("@", "<", ">") else code
