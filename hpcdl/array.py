"""Arrays of any kind: which namespace an array belongs to, and how to bring it to the host.

Layers, optimizers and codecs call `namespace(x)` and use what it gives in place of numpy, so that
the same code runs on numpy and on cupy arrays. A namespace is a module, or an object, that offers
numpy's main functions under numpy's names.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy or cupy array, or any array whose namespace follows numpy's."""


def namespace(x: Array) -> Any:
    """The namespace of `x`: numpy for a numpy array, cupy for a cupy array.

    Any other array is asked by its `__array_namespace__`. cupy is never imported here: an array of
    cupy exists only where cupy has been imported already.

    Args:
        x: an array.

    Returns:
        The module or object whose functions take arrays of the kind of `x`.

    Raises:
        TypeError: `x` is not an array of a known kind.
    """
    if isinstance(x, np.ndarray):
        return np
    if type(x).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"]
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    raise TypeError(
        f"x: needs a numpy array, a cupy array or an array with __array_namespace__, "
        f"got {type(x).__name__}"
    )


def to_host(x: Array) -> np.ndarray[Any, Any]:
    """`x` as a numpy array.

    Args:
        x: an array of any kind; one on a device is copied, which waits for its stream.

    Returns:
        `x` itself if it is a numpy array already, otherwise a copy on the host.

    Raises:
        TypeError: `x` is not an array of a known kind.
    """
    if namespace(x) is np:
        return x  # type: ignore[no-any-return]
    return np.asarray(x.get() if hasattr(x, "get") else x)
