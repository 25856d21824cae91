"""Packed bits, against Python's big integers."""

import numpy as np
import pytest

from hpcdl.compression.bits import group, pack, packed_bytes, unpack


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 100])
def test_packed_as_one_big_integer(bits, n):
    codes = np.random.default_rng(n).integers(0, 2**bits, n).astype(np.uint8)
    packed = pack(codes, bits)
    whole = sum(int(c) << (bits * i) for i, c in enumerate(codes))
    assert packed.dtype == np.uint8
    assert packed.size == packed_bytes(n, bits)
    assert int.from_bytes(packed.tobytes(), "little") == whole
    assert unpack(packed, n, bits).tolist() == codes.tolist()


def test_sizes():
    assert [group(bits) for bits in (1, 2, 3, 4, 6, 8)] == [
        (8, 1), (4, 1), (8, 3), (2, 1), (4, 3), (1, 1),
    ]  # fmt: skip
    assert [packed_bytes(n, 4) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert [packed_bytes(n, 3) for n in (0, 1, 8, 9)] == [0, 3, 3, 6]
