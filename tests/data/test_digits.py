"""The digits file, compared with scikit-learn's own arrays."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

from hpcdl.data import DataError, HDF5Dataset, ensure_digits, write_digits


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "new folder" / "digits.h5"
    write_digits(path)
    return path


def everything(path):
    with h5py.File(path) as file:
        return [
            file[f"{part}/{kind}"][...]
            for part in ("train", "test")
            for kind in ("input", "target")
        ]


def test_shapes_types_and_layout(path):
    train_x, train_y, test_x, test_y = everything(path)
    assert train_x.shape == (1437, 8, 8, 1)
    assert test_x.shape == (360, 8, 8, 1)
    assert (train_y.shape, test_y.shape) == ((1437,), (360,))
    assert train_x.dtype == test_x.dtype == np.float32
    assert train_y.dtype == test_y.dtype == np.int64
    assert (train_x.min(), train_x.max()) == (0, 1)
    with h5py.File(path) as file:
        assert all(
            file[f"{part}/{kind}"].chunks is None
            for part in ("train", "test")
            for kind in ("input", "target")
        )


def test_every_image_is_there_once_with_its_label(path):
    train_x, train_y, test_x, test_y = everything(path)
    digits = load_digits()
    got = [
        (label, tuple((image * 16).astype(int).ravel()))
        for image, label in zip(
            np.concatenate([train_x, test_x]), np.concatenate([train_y, test_y]), strict=True
        )
    ]
    wanted = [
        (label, tuple(image.astype(int).ravel()))
        for image, label in zip(digits.images, digits.target, strict=True)
    ]
    assert sorted(got) == sorted(wanted)


def test_the_split_is_stratified(path):
    _, train_y, _, test_y = everything(path)
    counts = np.bincount(load_digits().target)
    exact = counts * 360 / 1797
    assert np.all(np.abs(np.bincount(test_y) - exact) < 1)
    assert np.array_equal(np.bincount(train_y) + np.bincount(test_y), counts)
    # Shuffled too: in sorted order there would be 9 changes of class.
    assert np.count_nonzero(np.diff(train_y)) > 1000


def test_attributes_say_what_it_is(path):
    with h5py.File(path) as file:
        assert "doi:10.24432/C50P49" in file.attrs["citation"]
        assert file.attrs["licence"] == "CC BY 4.0"
        assert file.attrs["split_seed"] == 0
        assert "scikit-learn" in file.attrs["source"]
        assert file["test/input"].attrs["axes"] == "sample, height, width, channel"
        assert "divided by 16" in file["train/input"].attrs["scale"]


def test_the_same_seed_gives_the_same_file(path, tmp_path):
    write_digits(tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == path.read_bytes()
    write_digits(tmp_path / "other.h5", seed=1)
    assert sorted(everything(tmp_path / "other.h5")[3]) == sorted(everything(path)[3])
    assert not np.array_equal(everything(tmp_path / "other.h5")[2], everything(path)[2])


def test_the_reader_takes_it(path):
    with HDF5Dataset(path, "test/input", "test/target") as data:
        assert (len(data), data.sample_shape, data.classes) == (360, (8, 8, 1), 10)
        assert np.array_equal(data.read(range(360))[0], everything(path)[2])


def test_it_is_made_on_first_use_only(path, tmp_path):
    made = ensure_digits(tmp_path / "a" / "b")
    assert made.read_bytes() == path.read_bytes()
    before = made.stat()
    assert ensure_digits(tmp_path / "a" / "b") == made
    assert made.stat() == before
    assert [p.name for p in made.parent.iterdir()] == ["digits.h5"]


def test_a_disk_that_is_full(tmp_path):
    """A limit on the size of files stands in for the disk; it applies to root too."""
    program = f"""
import resource
from hpcdl.data import DataError, write_digits
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_digits({str(tmp_path / "d.h5")!r})
except DataError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{tmp_path / 'd.h5'}: cannot be written: File too large\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_a_file(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(DataError, match=r"f/d\.h5: cannot be written: "):
        write_digits(tmp_path / "f" / "d.h5")
