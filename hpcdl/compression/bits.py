"""Small integers packed without gaps: codes of 1 to 8 bits in bytes, the lowest bits first."""

from __future__ import annotations

import math

from hpcdl.array import Array, namespace


def group(bits: int) -> tuple[int, int]:
    """Return ``(codes, bytes)`` of the smallest run of codes that fills whole bytes."""
    together = math.lcm(bits, 8)
    return together // bits, together // 8


def packed_bytes(n: int, bits: int) -> int:
    """Return the bytes that ``n`` codes take; the last group is filled up."""
    codes, nbytes = group(bits)
    return -(-n // codes) * nbytes


def pack(codes: Array, bits: int) -> Array:
    """Pack codes.

    Args:
        codes: uint8 (n,), each below ``2 ** bits``.
        bits: 1 to 8.

    Returns:
        uint8 (packed_bytes(n, bits),).
    """
    xp = namespace(codes)
    per_group, nbytes = group(bits)
    groups = -(-codes.size // per_group)
    if codes.size % per_group:
        padded = xp.zeros(groups * per_group, xp.uint8)
        padded[: codes.size] = codes
        codes = padded
    rows = codes.reshape(groups, per_group)
    packed = xp.zeros((groups, nbytes), xp.uint8)
    for code, byte, shift in _overlaps(bits):
        column = rows[:, code]
        packed[:, byte] |= _shifted(column, shift)
    return packed.reshape(-1)


def unpack(packed: Array, n: int, bits: int) -> Array:
    """Return the ``n`` codes, uint8 (n,), that `pack` packed."""
    xp = namespace(packed)
    per_group, nbytes = group(bits)
    rows = packed.reshape(-1, nbytes)
    codes = xp.zeros((rows.shape[0], per_group), xp.uint8)
    for code, byte, shift in _overlaps(bits):
        column = rows[:, byte]
        codes[:, code] |= _shifted(column, -shift)
    codes &= (1 << bits) - 1
    return codes.reshape(-1)[:n]


def _overlaps(bits: int) -> list[tuple[int, int, int]]:
    """Return ``(code, byte, shift)`` wherever a code of a group has bits in a byte of it."""
    codes, nbytes = group(bits)
    return [
        (code, byte, shift)
        for code in range(codes)
        for byte in range(nbytes)
        if -bits < (shift := bits * code - 8 * byte) < 8
    ]


def _shifted(x: Array, bits: int) -> Array:
    """Return uint8 values shifted to higher bits; what leaves the byte at either end is dropped."""
    xp = namespace(x)
    return xp.left_shift(x, bits) if bits >= 0 else xp.right_shift(x, -bits)
