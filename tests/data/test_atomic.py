"""Files that are whole or not there, with and without HDF5 inside."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from hpcdl.data import hdf5_writer, replacing


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "a" / "f"
    for content in (b"one", b"two"):
        with replacing(path) as file:
            file.write(content)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == ["f"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file(tmp_path, kind):
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail():
        with replacing(path) as file:
            file.write(b"new")
            raise kind

    with pytest.raises(kind):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_hdf5_inside_a_file_is_like_any_other(tmp_path):
    values = np.random.default_rng(0).standard_normal((300, 1000))
    with replacing(tmp_path / "f.h5") as file, hdf5_writer(file, userblock_size=512) as h5:
        h5["a/b"] = values
        h5.create_dataset("c", data=values[:50], chunks=(7, 300), compression="gzip")
        for i in range(3000):  # more metadata than HDF5 keeps in its cache
            h5.create_dataset(f"many/{i}", data=i).attrs["i"] = i
        assert h5["many/17"][()] == 17
    with h5py.File(tmp_path / "f.h5") as h5:
        assert np.array_equal(h5["a/b"], values)
        assert np.array_equal(h5["c"], values[:50])
        assert [h5[f"many/{i}"][()] for i in range(3000)] == list(range(3000))
        assert h5.userblock_size == 512


# HDF5 on a plain file dies by a signal at some of these limits.
FULL = """
import errno, os, resource, sys
import h5py, numpy as np
from hpcdl.data import hdf5_writer, replacing
failed = 0
for limit in range(512, 150_000, 4001):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        with replacing("f.h5") as file, hdf5_writer(file) as h5:
            for i in range(100):
                h5.create_dataset(f"x/{i}", data=np.full(100, i))
                if i % 10 == 0:
                    h5.flush()
                assert h5[f"x/{i // 2}"].shape == (100,)
    except OSError as error:
        assert error.errno == errno.EFBIG, error
        assert not os.listdir()
        failed += 1
    else:
        with h5py.File("f.h5") as h5:
            assert all(np.all(h5[f"x/{i}"][...] == i) for i in range(100))
        os.unlink("f.h5")
print(failed, "refused")
"""


def test_every_moment_at_which_a_disk_can_be_full(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 20 < int(done.stdout.split()[0]) < 38


def test_an_interrupt_in_the_middle_of_hdf5(tmp_path, monkeypatch):
    pwrite = os.pwrite
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return pwrite(*arguments)

    def write():
        with replacing(tmp_path / "f.h5") as file, hdf5_writer(file) as h5:
            monkeypatch.setattr(os, "pwrite", interrupted)
            for i in range(10):
                h5[f"x{i}"] = np.arange(10)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert os.listdir(tmp_path) == []
