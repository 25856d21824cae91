"""Host and device memory: what an array is, and what its library calls things.

Nothing here imports cupy: a device array is told by the CUDA array interface that it shows, and
all work on it goes through its own namespace.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np


def namespace(array: Any) -> Any:
    """Return the module whose functions work on this array: numpy, cupy, or its own."""
    if isinstance(array, np.ndarray):
        return np
    module = type(array).__module__.split(".")[0]
    if module == "cupy":
        return importlib.import_module("cupy")
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    raise TypeError(f"array: {type(array).__name__} is neither a numpy nor a cupy array")


def flat(array: Any) -> Any:
    """Return a 1-D view of a C-contiguous array; a subclass of ndarray becomes a plain one."""
    if isinstance(array, np.ndarray):
        array = array.view(np.ndarray)
    return array.reshape(-1)


def on_device(array: Any) -> bool:
    """Return whether the array lies in a device's memory."""
    return not isinstance(array, np.ndarray) and hasattr(array, "__cuda_array_interface__")


def is_array(obj: Any) -> bool:
    """Return whether plans can work on an object as it is: an array of numpy, cupy, or alike.

    An array is alike if its own namespace has the streams of cupy, under ``cuda``.
    """
    if isinstance(obj, np.ndarray) or type(obj).__module__.split(".")[0] == "cupy":
        return True
    return (
        hasattr(obj, "__array_namespace__")
        and hasattr(obj.__array_namespace__(), "cuda")
        and on_device(obj)
    )


def host_empty(like: Any, nbytes: int) -> np.ndarray[Any, Any]:
    """Return host memory, uint8 (nbytes,); pinned where it is to stand for an array of cupy."""
    if type(like).__module__.split(".")[0] == "cupy":
        made: np.ndarray[Any, Any] = importlib.import_module("cupyx").empty_pinned(nbytes, np.uint8)
        return made
    return np.empty(nbytes, np.uint8)


def to_host(view: Any, host: Any) -> None:
    """Copy an array, of any stride, on host or device, into a contiguous host buffer; blocks."""
    if isinstance(view, np.ndarray):
        np.copyto(host, view)
    else:
        namespace(view).ascontiguousarray(view).get(out=host)


def from_host(host: Any, view: Any) -> None:
    """Copy a contiguous host buffer into an array of any stride, on host or device."""
    if isinstance(view, np.ndarray):
        np.copyto(view, host)
    else:
        view[...] = namespace(view).asarray(host)


def synchronize(array: Any) -> None:
    """Wait until the device has finished the work in flight on an array; nothing on the host."""
    if on_device(array):
        namespace(array).cuda.get_current_stream().synchronize()
