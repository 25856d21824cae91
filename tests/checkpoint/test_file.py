"""One checkpoint file: what goes in comes out, and whatever is damaged or hostile is refused."""

import hashlib
import math
import os
import re
import tracemalloc

import h5py
import numpy as np
import pytest

from hpcdl.checkpoint import CheckpointError, read, write

RNG = np.random.default_rng(0)
TENSORS = {
    "model/0.conv.weight": RNG.standard_normal((3, 3, 1, 16)).astype(np.float32),
    "model/0.conv.bias": RNG.standard_normal(16),
    "optimizer/momentum": RNG.standard_normal(1000)[::3],
    "transposed": RNG.standard_normal((5, 7)).T,
    "scalar": np.array(2.5, np.float16),
    "empty": np.zeros((0, 3), np.int16),
    "order": RNG.permutation(50),
    "flags": np.array([True, False]),
    "big endian": np.arange(5, dtype=">i4"),
    "complex": np.array([1 + 2j, math.inf - 1j]),
    "special": np.array([math.nan, -0.0, math.inf, 5e-324]),
}
ATTRS = {
    "step": 17,
    "random_state": 2**127 + 1,
    "negative": -3,
    "lr": 0.1 + 0.2,
    "nan": math.nan,
    "infinite": -math.inf,
    "whole": 2.0,
    "text": "line\nzero\0 \u00e9 \U0001f600",
    "long": "x" * 200_000,
    "empty": "",
}


@pytest.fixture
def path(tmp_path):
    write(tmp_path / "c.h5", TENSORS, ATTRS)
    return tmp_path / "c.h5"


def test_what_goes_in_comes_out(path):
    tensors, attrs = read(path)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].shape == tensor.shape
        assert tensors[name].tobytes() == tensor.tobytes()
        assert tensors[name].flags.writeable
    assert set(attrs) == set(ATTRS)
    for name, value in ATTRS.items():
        assert type(attrs[name]) is type(value)
        assert attrs[name] == value or (math.isnan(value) and math.isnan(attrs[name]))


def test_numpy_numbers_become_pythons(tmp_path):
    write(tmp_path / "c.h5", {}, {"i": np.int64(3), "f": np.float32(0.1)})
    tensors, attrs = read(tmp_path / "c.h5")
    assert tensors == {}
    assert attrs == {"i": 3, "f": float(np.float32(0.1))}
    assert {type(value) for value in attrs.values()} == {int, float}


def test_any_hdf5_tool_can_read_it(path):
    with h5py.File(path) as file:
        assert np.array_equal(file["tensors/order"][...], TENSORS["order"])
        assert b'"step": 17' in file["attributes"][()]
    lines = path.read_bytes()[:512].rstrip(b"\0").decode().splitlines()
    digest = hashlib.sha256(path.read_bytes()[512:]).hexdigest()
    assert lines == ["hpcdl checkpoint 1", f"sha256 {digest}"]


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    write(tmp_path / "d.h5", dict(reversed(TENSORS.items())), dict(reversed(ATTRS.items())))
    assert (tmp_path / "d.h5").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("tensors", "attrs", "kind", "message"),
    [
        ({"x": [1.0]}, {}, TypeError, "tensor 'x' is list; it must be a NumPy array of numbers"),
        ({"x": np.array(["a"])}, {}, TypeError, "tensor 'x' is <U1;"),
        ({"x": np.array([None])}, {}, TypeError, "tensor 'x' is object;"),
        ({"x": np.zeros(1, "i4,f4")}, {}, TypeError, "tensor 'x' is"),
        ({"": np.zeros(1)}, {}, ValueError, "tensor name ''"),
        ({"/x": np.zeros(1)}, {}, ValueError, "tensor name '/x'"),
        ({"a//x": np.zeros(1)}, {}, ValueError, "tensor name 'a//x'"),
        ({"a/./x": np.zeros(1)}, {}, ValueError, "tensor name 'a/./x'"),
        ({"a\0x": np.zeros(1)}, {}, ValueError, "tensor name 'a\\x00x'"),
        ({"a": np.zeros(1), "a/x": np.zeros(1)}, {}, ValueError, "a part of it is another"),
        ({}, {"flag": True}, TypeError, "attribute 'flag' is bool; it must be int, float or str"),
        ({}, {"none": None}, TypeError, "attribute 'none' is NoneType;"),
        ({}, {"c": np.complex128(1)}, TypeError, "attribute 'c' is complex128;"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_at_once(tmp_path, tensors, attrs, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        write(tmp_path / "c.h5", tensors, attrs)
    assert os.listdir(tmp_path) == []


def cause(path):
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert caught.value.path == path
    assert str(caught.value) == f"{path}: {caught.value.cause}"
    return caught.value.cause


def test_every_flipped_byte_is_found(tmp_path):
    small = {name: value for name, value in ATTRS.items() if name != "long"}
    write(tmp_path / "c.h5", TENSORS, small)
    content = (tmp_path / "c.h5").read_bytes()
    positions = [*range(512), *range(512, len(content), 61), len(content) - 1]
    for position in positions:
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "d.h5").write_bytes(damaged)
        assert cause(tmp_path / "d.h5").startswith(("damaged: ", "not a file that begins"))


def test_cut_and_extended_files_are_found(path):
    content = path.read_bytes()
    for length in (0, 1, 19, 511, 512, 513, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert cause(path).startswith(("damaged: ", "not a file that begins"))
    path.write_bytes(content + b"\0")
    assert cause(path) == "damaged: its content does not match its checksum"


def test_missing_and_foreign_files(tmp_path):
    path = tmp_path / "c.h5"
    assert cause(path) == "cannot be read: No such file or directory"
    with h5py.File(path, "w") as file:
        file["tensors/x"] = 1.0
    assert cause(path) == "not a file that begins with 'hpcdl checkpoint 1'"
    path.unlink()
    path.mkdir()
    assert cause(path) == "cannot be read: it is not a regular file"


def seal(path):
    """Give a file the header that makes its content believed."""
    content = path.read_bytes()[512:]
    text = f"hpcdl checkpoint 1\nsha256 {hashlib.sha256(content).hexdigest()}\n"
    path.write_bytes(text.encode().ljust(512, b"\0") + content)


def early(h5, name, shape):
    """A data set whose file space is claimed and never written."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(shape)
    h5py.h5d.create(h5.id, name.encode(), h5py.h5t.IEEE_F64LE, space, properties)


def reference(h5):
    h5["tensors/x"] = np.full(3, h5["attributes"].ref, h5py.ref_dtype)


def text_array(h5):
    h5["tensors/x"] = ["some", "text"]


def ragged(h5):
    data = h5.create_dataset("tensors/x", 2, h5py.vlen_dtype(np.int32))
    data[0] = [1, 2]


def records(h5):
    h5["tensors/x"] = np.zeros(3, [("a", "i4"), ("b", "f8")])


def huge_chunked(h5):
    h5.create_dataset("tensors/x", (10**15,), "f8", chunks=(1000,))


def huge_compressed(h5):
    h5.create_dataset("tensors/x", (10**6,), "f8", chunks=(10**6,), compression=1)[...] = 0


def huge_contiguous(h5):
    h5.create_dataset("tensors/x", (10**15,), "f8")


def outside(h5):
    h5.create_dataset("tensors/x", 4, "u1", external=[("/etc/passwd", 0, 4)])


def virtual(h5):
    layout = h5py.VirtualLayout((10**12,), "f8")
    layout[:10] = h5py.VirtualSource("other.h5", "x", (10,))
    h5.create_virtual_dataset("tensors/x", layout, fillvalue=1)


def type_object(h5):
    h5["tensors/x"] = np.dtype("f8")


def tensors_is_an_array(h5):
    del h5["tensors"]
    h5["tensors"] = 1.0


def tensors_is_far_away(h5):
    del h5["tensors"]
    h5["tensors"] = h5py.ExternalLink("other.h5", "/")


def no_attributes(h5):
    del h5["attributes"]


def attributes_is_a_group(h5):
    del h5["attributes"]
    h5.create_group("attributes")


def attributes(value):
    def change(h5):
        del h5["attributes"]
        h5["attributes"] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reference, "/tensors/x has the type object, which no checkpoint has"),
        (text_array, "/tensors/x has the type object,"),
        (ragged, "/tensors/x has the type object,"),
        (records, "/tensors/x has the type [('a', '<i4'), ('b', '<f8')],"),
        (huge_chunked, "/tensors/x is not stored in one piece"),
        (huge_compressed, "/tensors/x is not stored in one piece"),
        (huge_contiguous, "/tensors/x claims 8000000000000000 bytes, which the file does not have"),
        (outside, "/tensors/x is not stored in one piece"),
        (virtual, "/tensors/x is not stored in one piece"),
        (type_object, "/tensors/x is not an array"),
        (tensors_is_an_array, "tensors is not a group"),
        (tensors_is_far_away, "it has no tensors"),
        (no_attributes, "it has no attributes"),
        (attributes_is_a_group, "/attributes is not an array"),
        (attributes("variable length"), "/attributes has the type object,"),
        (attributes(np.array([b"{}", b"{}"])), "can only convert an array of size 1"),
        (attributes(np.array(b"{")), "Expecting property name"),
        (attributes(np.array(b"[1]")), "attributes are not int, float or str"),
        (attributes(np.array(b'{"a": [1]}')), "attributes are not int, float or str"),
        (attributes(np.array(b'{"a": true}')), "attributes are not int, float or str"),
        (attributes(np.array(b"[" * 10**6)), ""),
        (attributes(np.array(b"\xff\xfe\xfd")), ""),
    ],
)
def test_hostile_files(path, change, message):
    with h5py.File(path, "r+") as h5:
        change(h5)
    seal(path)
    tracemalloc.start()
    found = cause(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.startswith("cannot be read: ")
    assert message in found
    assert peak < path.stat().st_size + 4 * 2**20


def test_arrays_that_share_their_bytes_cannot_multiply_them(tmp_path):
    """Nine small arrays are changed to claim the megabyte of the large one."""
    path = tmp_path / "c.h5"
    write(path, {}, {})
    with h5py.File(path, "r+") as h5:
        early(h5["tensors"], "large", (2**17,))
        for i in range(9):
            early(h5["tensors"], f"small{i}", (1234,))
        base = h5["tensors/large"].id.get_offset() - 512
        offsets = [h5[f"tensors/small{i}"].id.get_offset() - 512 for i in range(9)]
    content = path.read_bytes()
    for old, new in [(1234, 2**17), (1234 * 8, 2**20), *((offset, base) for offset in offsets)]:
        content = content.replace(old.to_bytes(8, "little"), new.to_bytes(8, "little"))
    path.write_bytes(content)
    with h5py.File(path) as h5:
        assert {h5[f"tensors/small{i}"].id.get_offset() - 512 for i in range(9)} == {base}
        assert h5["tensors/small8"].shape == (2**17,)
    seal(path)
    tracemalloc.start()
    found = cause(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "claims 1048576 bytes, which the file does not have" in found
    assert peak < 3.5 * 2**20
