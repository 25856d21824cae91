"""The format of what an object shows through DLPack.

numpy could tell, but it refuses some of the objects that mpi4py takes, such as those that do not
say whether they may be written to.
"""

from __future__ import annotations

import ctypes
from typing import Any

_DTYPE_OFFSET = 20
"""Of ``DLDataType`` in ``DLTensor``: after a pointer, a device of two ints, and an int."""

_CODES = {
    0: {8: "b", 16: "h", 32: "i", 64: "l"},
    1: {8: "B", 16: "H", 32: "I", 64: "L"},
    2: {16: "e", 32: "f", 64: "d", 128: "g"},
    4: {16: "bfloat16"},
    5: {64: "F", 128: "D", 256: "G"},
    6: {8: "?"},
}
"""Kind (int, unsigned, float, bfloat, complex, bool) -> bits of an element -> its format."""

_FLOAT, _COMPLEX = 2, 5


def format_of(obj: Any) -> str:
    """Return the format of the elements, as in the buffer protocol; "B" where that has none.

    Raises:
        BufferError: the object does not show what it promises.
    """
    capsule = obj.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    try:
        tensor = pointer_of(capsule, b"dltensor")
    except ValueError as error:
        raise BufferError(f"dlpack: invalid capsule object ({error})") from None
    kind, bits = (ctypes.c_uint8 * 2).from_address(tensor + _DTYPE_OFFSET)
    lanes = ctypes.c_uint16.from_address(tensor + _DTYPE_OFFSET + 2).value
    if kind == _FLOAT and lanes == 2:  # as complex numbers were shown before they had a kind
        kind, bits, lanes = _COMPLEX, 2 * bits, 1
    return _CODES.get(kind, {}).get(bits, "B") if lanes == 1 else "B"
