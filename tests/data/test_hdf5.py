"""The reader, compared with plain numpy indexing of what was written."""

import os
import re
import subprocess
import sys
import tracemalloc

import h5py
import numpy as np
import pytest

from hpcdl.data import DataError, HDF5Dataset, source

N, SHAPE = 37, (6, 5, 2)
RNG = np.random.default_rng(1)
X = RNG.standard_normal((N, *SHAPE)).astype(np.float32)
Y = RNG.integers(0, 7, N)

LAYOUTS = {
    "contiguous": {},
    "chunks of 5 samples": {"chunks": (5, *SHAPE)},
    "one chunk": {"chunks": (N, *SHAPE)},
    "chunks across samples": {"chunks": (N, 2, 5, 1)},
    "gzip": {"chunks": (4, 3, 5, 2), "compression": "gzip", "shuffle": True},
    "checksum": {"chunks": (8, *SHAPE), "fletcher32": True},
}
INDICES = [
    list(range(N)),
    [36, 0, 17, 3],
    [5, 5, 5, 4, 36, 5],
    list(RNG.permutation(N)),
    [12],
    [],
]


def write(path, x=X, y=Y, x_options=None, **file_options):
    with h5py.File(path, "w", **file_options) as file:
        file.create_dataset("train/input", data=x, **(x_options or {}))
        file.create_dataset("train/target", data=y)
    return path


@pytest.fixture(params=LAYOUTS)
def layout(request, tmp_path):
    return write(tmp_path / "d.h5", x_options=LAYOUTS[request.param])


@pytest.mark.parametrize("rows", [None, slice(None), slice(2, 5), slice(0, 0), slice(5, 6)])
@pytest.mark.parametrize("indices", INDICES)
def test_every_layout_gives_the_same_bytes(layout, indices, rows):
    with HDF5Dataset(layout) as data:
        x, y = data.read(indices, rows)
    wanted = X[np.array(indices, int)]
    if rows is not None:
        wanted = wanted[:, rows]
    assert x.dtype == np.float32
    assert x.shape == wanted.shape
    assert x.tobytes() == wanted.tobytes()
    assert y.dtype == np.int64
    assert y.tolist() == Y[np.array(indices, int)].tolist()


def test_spans_are_cut_at_the_limit(monkeypatch, tmp_path):
    path = write(tmp_path / "d.h5", x_options=LAYOUTS["one chunk"])
    reads = []
    read = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, key: (reads.append(key), read(self, key))[1]
    )
    monkeypatch.setattr(source, "_SPAN", 10 * X[0].nbytes)
    with HDF5Dataset(path) as data:
        reads.clear()
        x, _ = data.read([30, 1, 2, 9, 11, 12, 36])
    # From 1, ten samples reach up to 10; from 11, up to 20; from 30, up to 39.
    assert reads[:3] == [(slice(1, 10),), (slice(11, 13),), (slice(30, 37),)]
    assert np.array_equal(x, X[[30, 1, 2, 9, 11, 12, 36]])


def test_samples_of_different_chunks_are_read_one_by_one(monkeypatch, tmp_path):
    path = write(tmp_path / "d.h5", x_options=LAYOUTS["chunks of 5 samples"])
    reads = []
    read = h5py.Dataset.__getitem__
    monkeypatch.setattr(
        h5py.Dataset, "__getitem__", lambda self, key: (reads.append(key), read(self, key))[1]
    )
    with HDF5Dataset(path) as data:
        reads.clear()
        data.read([4, 5, 0, 12, 22], slice(1, 3))
    rows = slice(1, 3)
    # 0 and 4 share a chunk, 4 and 5 are neighbours.
    assert reads[:3] == [(slice(0, 6), rows), (slice(12, 13), rows), (slice(22, 23), rows)]


@pytest.mark.parametrize("dtype", ["<f8", ">f4", ">f2", "u1", "i1", ">i2", "<u4", ">i8", "?"])
@pytest.mark.parametrize("options", [{}, {"chunks": True}])
def test_types_and_byte_orders(tmp_path, dtype, options):
    x = np.arange(N * 4).reshape(N, 4).astype(dtype)
    y = (np.arange(N) % 3).astype(">i2")
    path = write(tmp_path / "d.h5", x, y, options)
    with HDF5Dataset(path) as data:
        got, labels = data.read([3, 1])
        assert data.dtype == np.dtype(dtype).newbyteorder("=")
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    assert got.dtype.isnative
    assert got.tolist() == x[[3, 1]].tolist()
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1]


def odd_integers(file, name, size, precision):
    """A data set of integers in which some bits are padding."""
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_size(size)
    kind.set_precision(precision)
    raw = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((4, 2)))
    raw.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(-4, 4, dtype=np.int32).reshape(4, 2))


def test_padded_integers_are_converted_by_hdf5(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        odd_integers(file, "x", 4, 20)
        file["y"] = np.arange(4)
    with HDF5Dataset(tmp_path / "d.h5", "x", "y") as data:
        assert data.read([3, 0])[0].tolist() == [[2, 3], [-4, -3]]


def test_values_never_written_are_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("x", (3, 2), "f4", fillvalue=7)
        file["y"] = np.arange(3)
    with HDF5Dataset(tmp_path / "d.h5", "x", "y") as data:
        assert data.read([2])[0].tolist() == [[7, 7]]


@pytest.mark.parametrize("options", [{"userblock_size": 1024}, {"libver": "latest"}])
def test_other_kinds_of_file(tmp_path, options):
    path = write(tmp_path / "d.h5", **options)
    with HDF5Dataset(path) as data:
        assert np.array_equal(data.read([9, 2])[0], X[[9, 2]])


def test_data_sets_behind_links(tmp_path):
    write(tmp_path / "far.h5", x_options={})
    with h5py.File(tmp_path / "near.h5", "w") as file:
        file["far"] = h5py.ExternalLink("far.h5", "train/input")
        file["y"] = Y
        file["alias"] = h5py.SoftLink("/y")
        file.create_dataset(
            "raw", X.shape, X.dtype, external=[(str(tmp_path / "raw.bin"), 0, X.nbytes)]
        )[...] = X
        virtual = h5py.VirtualLayout(X.shape, X.dtype)
        virtual[...] = h5py.VirtualSource(tmp_path / "far.h5", "train/input", X.shape)
        file.create_virtual_dataset("virtual", virtual)
    for name in ("far", "raw", "virtual"):
        with HDF5Dataset(tmp_path / "near.h5", name, "alias") as data:
            x, y = data.read([30, 4])
            assert np.array_equal(x, X[[30, 4]])
            assert y.tolist() == Y[[30, 4]].tolist()


def test_properties_and_reopening(tmp_path):
    data = HDF5Dataset(write(tmp_path / "d.h5"))
    assert len(data) == N
    assert data.sample_shape == SHAPE
    assert data.classes == Y.max() + 1
    data.close()
    data.close()
    assert np.array_equal(data.read([1])[0], X[[1]])
    data.close()


def test_results_do_not_change_with_the_file(tmp_path):
    """What is read is a copy, and the file stays writable for others."""
    path = write(tmp_path / "d.h5")
    with HDF5Dataset(path) as data:
        x, _ = data.read([0, 1])
        x[...] = 0
        assert np.array_equal(data.read([0, 1])[0], X[:2])
        with h5py.File(path, "r+") as file:
            file["train/input"][0] = 5


def test_floating_targets_keep_their_type(tmp_path):
    y = np.linspace(0, 1, 2 * N, dtype=np.float32).reshape(N, 2)
    with HDF5Dataset(write(tmp_path / "d.h5", y=y)) as data:
        got = data.read([5, 6])[1]
        assert got.dtype == np.float32
        assert np.array_equal(got, y[5:7])
        with pytest.raises(DataError, match=r"'train/target': shape \(37, 2\), float32: no cl"):
            _ = data.classes


@pytest.mark.parametrize("options", [{}, {"chunks": True}])
def test_classes(tmp_path, options):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["x"] = X
        file.create_dataset("y", data=Y.astype("i1"), **options)
        file.create_dataset("negative", data=(Y - 1).astype(">i4"), **options)
    assert HDF5Dataset(tmp_path / "d.h5", "x", "y").classes == Y.max() + 1
    with pytest.raises(DataError, match="class -1; classes must be >= 0"):
        _ = HDF5Dataset(tmp_path / "d.h5", "x", "negative").classes


@pytest.mark.parametrize(
    ("indices", "kind", "message"),
    [
        ([0, N], ValueError, f"indices from 0 to {N}; they must be >= 0 and < {N}"),
        ([-1], ValueError, f"indices from -1 to -1; they must be >= 0 and < {N}"),
        ([0.0], TypeError, "indices are float64; they must be integers"),
        ([True], TypeError, "indices are bool; they must be integers"),
        ([[0]], ValueError, "indices has shape (1, 1); it must have one axis"),
    ],
)
def test_wrong_indices(layout, indices, kind, message):
    with HDF5Dataset(layout) as data, pytest.raises(kind) as caught:
        data.read(indices)
    assert str(caught.value) == message


@pytest.mark.parametrize("rows", [slice(0, 7), slice(-1, 3), slice(4, 3), slice(0, 6, 2)])
def test_wrong_rows(layout, rows):
    with HDF5Dataset(layout) as data, pytest.raises(ValueError, match=re.escape(str(rows))):
        data.read([0], rows)


def refused(path, *names):
    with pytest.raises(DataError) as caught:
        HDF5Dataset(path, *names).read([0])
    return str(caught.value)


def test_missing_and_foreign_files(tmp_path):
    path = tmp_path / "d.h5"
    assert refused(path) == f"{path}: no such file"
    assert refused(tmp_path) == f"{tmp_path}: is not a file"
    for content in (b"", b"not HDF5", b"\0" * 10_000):
        path.write_bytes(content)
        assert refused(path) == f"{path}: cannot be opened: not an HDF5 file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    path = write(tmp_path / "d.h5")
    path.chmod(0)
    assert "Permission denied" in refused(path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_truncated_files(tmp_path, name):
    path = write(tmp_path / "d.h5", x_options=LAYOUTS[name])
    size = path.stat().st_size
    for cut in (1, size // 2, size - 600):
        with open(path, "r+b") as file:
            file.truncate(size - cut)
        message = refused(path)
        assert message.startswith(f"{path}: cannot be opened: truncated file")
        assert "\n" not in message


def test_damage_that_leaves_the_file_openable(tmp_path):
    """The superblock has been changed to match a file that ends within its data."""
    path = write(tmp_path / "d.h5")
    with h5py.File(path) as file:
        end = file["train/input"].id.get_offset() + X.nbytes
    size = path.stat().st_size.to_bytes(8, "little")
    content = path.read_bytes().replace(size, (end - 8).to_bytes(8, "little"))
    path.write_bytes(content[: end - 8])
    assert "'train/input': cannot be opened: " in refused(path) or "is truncated" in refused(path)


def test_a_file_that_is_cut_after_it_was_opened(tmp_path, monkeypatch):
    path = write(tmp_path / "d.h5")
    size = path.stat().st_size
    monkeypatch.setattr(os.path, "getsize", lambda name: X.nbytes)
    assert f"{path} is truncated: it has {X.nbytes} bytes and needs " in refused(path)
    assert size > X.nbytes


def test_missing_data_sets_are_listed(tmp_path):
    path = write(tmp_path / "d.h5")
    assert refused(path, "train/inputs") == (
        f"{path}: 'train/inputs': no such data set; the file has: 'train/input', 'train/target'"
    )
    assert refused(path, "train") == (
        f"{path}: 'train': not a data set; the file has: 'train/input', 'train/target'"
    )
    assert "no such data set" in refused(path, "train/input", "train/input/x")
    assert "no such data set" in refused(path, "")
    with h5py.File(path, "w"):
        pass
    assert refused(path).endswith("the file has: nothing")
    with h5py.File(path, "w") as file:
        for i in range(50):
            file[f"set{i:02}"] = np.arange(3)
    assert refused(path).endswith("'set18', 'set19', ...")


def test_unsuitable_data_sets(tmp_path):
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        file["x"] = X
        file["y"] = Y
        file["short"] = Y[:-1]
        file["none"] = np.zeros((0, 3))
        file["flat"] = np.zeros(N)
        file["scalar"] = 1.0
        file["text"] = ["a", "b"]
        file["complex"] = np.zeros((N, 1), complex)
        file["records"] = np.zeros(N, [("a", int), ("b", float)])
        file["references"] = np.full(N, file["x"].ref, h5py.ref_dtype)
        file["dangling"] = h5py.ExternalLink("missing.h5", "x")
        odd_integers(file, "odd", 3, 24)
    assert refused(path, "x", "short").endswith("'x': 37 samples but 36 targets in 'short'")
    assert refused(path, "none", "y").endswith("'none': shape (0, 3): no samples")
    assert refused(path, "scalar", "y").endswith("'scalar': shape (): no samples")
    assert refused(path, "flat", "y").endswith("'flat': shape (37,); it must be (N, ...)")
    assert "'dangling': cannot be opened: " in refused(path, "dangling", "y")
    assert "'odd': a type that NumPy lacks" in refused(path, "odd", "y")
    for name in ("text", "complex", "records", "references"):
        assert "it must be integers, floats or bools" in refused(path, name, "y")


def test_damaged_chunks_are_reported_when_read(tmp_path):
    path = write(tmp_path / "d.h5", x_options=LAYOUTS["checksum"])
    with h5py.File(path) as file:
        offset = file["train/input"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset + 10] ^= 1
    path.write_bytes(content)
    with HDF5Dataset(path) as data:
        with pytest.raises(DataError, match="'train/input': cannot be read: "):
            data.read([0])
        assert np.array_equal(data.read([20])[0], X[[20]])


LARGE = (200_000, 16, 16)  # of float32: 205 MB


def test_memory_is_bounded_on_a_large_file(tmp_path):
    path = tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        early.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple(LARGE)
        plain = h5py.h5d.create(file.id, b"plain", h5py.h5t.IEEE_F32LE, space, early)
        h5py.Dataset(plain)[123_456] = 1
        chunked = file.create_dataset("gzip", LARGE, "f4", chunks=(1000, 16, 16), compression=1)
        chunked[123_000:124_000] = 1
        file["y"] = np.zeros(LARGE[0], "u1")
    assert path.stat().st_size > 200e6
    assert path.stat().st_blocks * 512 < 20e6
    for name in ("plain", "gzip"):
        with HDF5Dataset(path, name, "y") as data:
            indices = np.random.default_rng(0).integers(0, LARGE[0], 64)
            indices[7] = 123_456
            len(data)
            tracemalloc.start()
            x, _ = data.read(indices)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert (
                x.sum()
                == np.sum((indices == 123_456) if name == "plain" else (indices // 1000 == 123))
                * 256
            )
            assert peak < 2 * x.nbytes + 1.2e6
    # The whole process too, seen from outside: what it holds alone, without pages of the file.
    program = f"""
import numpy as np
from hpcdl.data import HDF5Dataset
def private():
    text = open("/proc/self/status").read()
    return int(text.split("RssAnon:")[1].split()[0]) * 1024
for name in ("plain", "gzip"):
    data = HDF5Dataset({str(path)!r}, name, "y")
    data.read([0])
    before = private()
    for start in range(0, {LARGE[0]}, 20_000):
        data.read(np.arange(start, start + 64)[::-1])
    grown = private() - before
    assert grown < 16e6, (name, grown)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
