"""Scikit-learn's handwritten digits as an HDF5 file: real images that need no download."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcdl.data.atomic import hdf5_writer, replacing
from hpcdl.data.hdf5 import DataError
from hpcdl.data.sampler import permutation

__all__ = ["ensure_digits", "write_digits"]

_TEST_SAMPLES = 360  # of 1797, a fifth

_ABOUT = {
    "title": "Optical recognition of handwritten digits, 8x8",
    "source": "scikit-learn, sklearn.datasets.load_digits; the test part of the UCI data set",
    "citation": "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, "
    "UCI Machine Learning Repository, 1998, doi:10.24432/C50P49",
    "licence": "CC BY 4.0",
    "split": "stratified by class, drawn without replacement",
}
_IMAGES = {
    "axes": "sample, height, width, channel",
    "scale": "0 is white, 1 is black: the original values 0..16 divided by 16",
}
_LABELS = {"axes": "sample", "meaning": "the digit, 0..9"}


def write_digits(path: str | os.PathLike[str], seed: int = 0) -> None:
    """Write the digits to an HDF5 file, which appears under its name only when it is whole.

    The data sets are contiguous: ``train/input`` (1437, 8, 8, 1) and ``test/input``
    (360, 8, 8, 1), float32 in 0..1; ``train/target`` (1437,) and ``test/target`` (360,), int64.
    Attributes say what they are and where they come from. The same seed gives the same bytes.

    Args:
        path: the file to create or to replace. Its folder is made if it is not there.
        seed: integer >= 0; chooses which samples are for the test.

    Raises:
        DataError: the file cannot be written.
    """
    from sklearn.datasets import load_digits  # takes a second, and most runs have the file

    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., np.newaxis]
    labels = digits.target.astype(np.int64)
    train, test = _split(labels, seed)
    try:
        with replacing(path) as file, hdf5_writer(file) as h5:
            h5.attrs.update(_ABOUT | {"split_seed": seed})
            for name, samples in (("train", train), ("test", test)):
                _add(h5, f"{name}/input", images[samples], _IMAGES)
                _add(h5, f"{name}/target", labels[samples], _LABELS)
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be written: {error.strerror}") from error


def is_digits(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is one that `write_digits` wrote."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            return bool(file.attrs.get("title") == _ABOUT["title"])
    except OSError:
        return False


def ensure_digits(folder: str | os.PathLike[str]) -> Path:
    """Return the path of ``digits.h5`` in a folder; write the file if it is not there.

    Args:
        folder: made if it is not there. Several processes may do this at the same time.

    Raises:
        DataError: the file cannot be written.
    """
    path = Path(folder) / "digits.h5"
    if not path.exists():
        write_digits(path)
    return path


def _add(h5: Any, name: str, values: NDArray[Any], about: dict[str, str]) -> None:
    h5.create_dataset(name, data=values).attrs.update(about)


def _split(labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the samples so that each class has its share of the test; both parts are shuffled."""
    order = permutation(len(labels), seed)
    counts = np.bincount(labels)
    shares = counts * _TEST_SAMPLES / len(labels)
    wanted = np.floor(shares).astype(np.int64)
    # Largest remainders first, so that the whole comes out exactly.
    largest = np.argsort(wanted - shares, kind="stable")
    wanted[largest[: _TEST_SAMPLES - int(wanted.sum())]] += 1
    chosen = [order[labels[order] == c][: wanted[c]] for c in range(len(counts))]
    for_test = np.isin(order, np.concatenate(chosen))
    return order[~for_test], order[for_test]
