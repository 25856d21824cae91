"""A folder of checkpoints: what is kept, what is found again, full disks and killed processes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from hpcdl.checkpoint import CheckpointDir, CheckpointError, read


def state(step):
    return {"w": np.arange(step, step + 1000.0), "v": np.full((3, 3), step)}, {"step": step}


def steps(folder):
    return sorted(int(name[5:-3]) for name in os.listdir(folder) if name.startswith("step-"))


def test_the_last_are_kept(tmp_path):
    saved = CheckpointDir(tmp_path / "run" / "checkpoints", keep=3)
    assert saved.latest() is None
    for step in (0, 5, 10, 100, 1_000_000):
        path = saved.save(step, *state(step))
        assert read(path)[1] == {"step": step}
    assert steps(saved.path) == [10, 100, 1_000_000]
    path, tensors, attrs = saved.latest()
    assert path == saved.path / "step-000001000000.h5"
    assert attrs == {"step": 1_000_000}
    assert np.array_equal(tensors["w"], state(1_000_000)[0]["w"])


def test_the_same_step_again_replaces_it(tmp_path):
    saved = CheckpointDir(tmp_path, keep=2)
    saved.save(1, {}, {"try": 1})
    saved.save(1, {}, {"try": 2})
    assert saved.latest()[2] == {"try": 2}
    assert steps(tmp_path) == [1]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "folder"])
def test_broken_ones_are_reported_and_passed_over(tmp_path, damage):
    saved = CheckpointDir(tmp_path, keep=5)
    for step in (1, 2, 3):
        saved.save(step, *state(step))
    for step in (2, 3):
        path = tmp_path / f"step-{step:012}.h5"
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.write_bytes({"cut": content[:2000], "flip": content}.get(damage, b""))
        if damage == "folder":
            path.unlink()
            path.mkdir()
    reports = []
    path, _, attrs = saved.latest(reports.append)
    assert (path.name, attrs) == ("step-000000000001.h5", {"step": 1})
    assert [report.path.name for report in reports] == [
        "step-000000000003.h5",
        "step-000000000002.h5",
    ]
    with pytest.warns(UserWarning, match=r"step-00000000000[23]\.h5: "):
        saved.latest()
    (tmp_path / "step-000000000001.h5").unlink()
    assert saved.latest(reports.append) is None


def test_the_new_one_is_kept_though_later_broken_ones_are_there(tmp_path):
    saved = CheckpointDir(tmp_path, keep=1)
    (tmp_path / "step-000000000200.h5").write_bytes(b"broken")
    for step in (100, 150):
        saved.save(step, *state(step))
    assert steps(tmp_path) == [150, 200]
    assert saved.latest(lambda error: None)[2] == {"step": 150}
    saved.save(200, *state(200))
    assert steps(tmp_path) == [200]
    assert saved.latest()[2] == {"step": 200}


def test_other_files_are_left_alone(tmp_path):
    others = ["step-1.h5", "step-00000000000x.h5", ".step-000000000001.h5.bak", "notes.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    saved = CheckpointDir(tmp_path, keep=1)
    for step in (1, 2):
        saved.save(step, *state(step))
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "step-000000000002.h5"])


def test_impossible_arguments(tmp_path):
    with pytest.raises(ValueError, match="keep = 0; it must be >= 1"):
        CheckpointDir(tmp_path, keep=0)
    for step in (-1, 10**12):
        with pytest.raises(ValueError, match=f"step = {step}; it must be >= 0 and < 1e12"):
            CheckpointDir(tmp_path, keep=1).save(step, {}, {})


def run(program, *arguments, timeout=60):
    """Run a program in a process of its own; warnings are errors there too."""
    command = [sys.executable, "-W", "error", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


FILE_LIMIT = """
import os, resource, sys
import numpy as np
from hpcdl.checkpoint import CheckpointDir, CheckpointError
saved = CheckpointDir(sys.argv[1], keep=2)
tensors = {f"{i}.weight": np.full(2000, float(i)) for i in range(40)}
for step in (1, 2):
    saved.save(step, tensors, {"step": step})
names = sorted(os.listdir(saved.path))
size = os.path.getsize(saved.path / names[-1])
refused = 0
for limit in [*range(0, size, 23_456), *range(size - 4000, size, 500), size - 1]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        saved.save(3, tensors, {"step": 3})
    except CheckpointError as error:
        assert error.cause == "cannot be written: File too large", error
        refused += 1
    assert sorted(os.listdir(saved.path)) == names
    assert saved.latest(sys.exit)[2] == {"step": 2}
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
saved.save(3, tensors, {"step": 3})
assert saved.latest(sys.exit)[2] == {"step": 3}
print(refused, "refused")
"""


def test_a_limit_on_the_size_of_files(tmp_path):
    """Fails as a full disk does, at each of many moments, and needs no rights."""
    assert int(run(FILE_LIMIT, tmp_path).split()[0]) > 30


FULL_DISK = """
import os, sys
import numpy as np
from hpcdl.checkpoint import CheckpointDir, CheckpointError
folder = sys.argv[1]
saved = CheckpointDir(folder, keep=5)
tensors = {f"{i}.weight": np.full(200, float(i)) for i in range(60)}
saved.save(1, tensors, {"step": 1})
causes = []
space = os.statvfs(folder)
free = space.f_bavail * space.f_frsize // 1024
for kilobytes in range(free - 250, free + 1, 4):
    with open(os.path.join(folder, "other"), "wb") as other:
        other.write(bytes(1024 * kilobytes))
    try:
        saved.save(2, tensors, {"step": 2})
    except CheckpointError as error:
        causes.append(error.cause)
        assert sorted(os.listdir(folder)) == ["other", "step-000000000001.h5"]
        assert saved.latest(sys.exit)[2] == {"step": 1}
    else:
        assert saved.latest(sys.exit)[2] == {"step": 2}
        os.unlink(os.path.join(folder, "step-000000000002.h5"))
assert set(causes) == {"cannot be written: No space left on device"}, causes
os.unlink(os.path.join(folder, "other"))
saved.save(2, tensors, {"step": 2})
print(len(causes), "refused")
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk(small_disk):
    assert 20 < int(run(FULL_DISK, small_disk).split()[0]) < 60


WRITE_FOR_EVER = """
import sys
import numpy as np
from hpcdl.checkpoint import CheckpointDir
saved = CheckpointDir(sys.argv[1], keep=2)
for step in range(1, 10**6):
    saved.save(step, {"w": np.full(500_000, float(step))}, {"step": step})
    print(step, flush=True)
"""


def test_a_process_killed_while_it_writes(tmp_path):
    """Killed at random moments; what it said was saved is there, and unfinished files go away."""
    unfinished = 0
    for trial, delay in enumerate(np.random.default_rng(3).uniform(0, 0.03, 8)):
        folder = tmp_path / str(trial)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITE_FOR_EVER, folder], stdout=subprocess.PIPE, text=True
        )
        said = int(process.stdout.readline())
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        said = max([said, *map(int, process.stdout.read().split())])
        process.wait()
        process.stdout.close()
        unfinished += any(name.endswith(".tmp") for name in os.listdir(folder))

        def fail(error):
            raise error

        _, tensors, attrs = CheckpointDir(folder, keep=2).latest(fail)
        assert said <= attrs["step"] <= said + 1
        assert np.all(tensors["w"] == attrs["step"])
        CheckpointDir(folder, keep=2).save(10**9, {}, {})
        assert not any(name.endswith(".tmp") for name in os.listdir(folder))
    assert unfinished > 0


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match="cannot be written: "):
        CheckpointDir(tmp_path / "file", keep=1).save(1, {}, {})


def test_what_the_check_finds_counts_as_damage(tmp_path):
    saved = CheckpointDir(tmp_path, keep=5)
    for step in (1, 2):
        saved.save(step, *state(step))
    seen, reports = [], []

    def check(step, tensors, attrs):
        seen.append((step, tensors["w"][0], attrs["step"]))
        return "odd" if step == 2 else None

    assert saved.latest(reports.append, check)[2] == {"step": 1}
    assert seen == [(2, 2.0, 2), (1, 1.0, 1)]
    (report,) = reports
    assert report.cause == "its content cannot be used: odd"


def test_only_regular_files_are_read_and_removed(tmp_path):
    saved = CheckpointDir(tmp_path, keep=1)
    (tmp_path / "step-000000000001.h5").mkdir()
    os.mkfifo(tmp_path / "step-000000000009.h5")
    for step in (2, 3):
        saved.save(step, *state(step))
    assert steps(tmp_path) == [1, 3, 9]
    reports = []
    assert saved.latest(reports.append)[2] == {"step": 3}
    assert [report.cause for report in reports] == ["cannot be read: it is not a regular file"]


def test_what_cannot_be_removed_is_only_reported(tmp_path):
    saved = CheckpointDir(tmp_path, keep=1)
    (tmp_path / ".step-000000000001.h5.0123.tmp").mkdir()  # where a left-over file would be
    with pytest.warns(UserWarning, match=r"\.tmp: cannot be removed: Is a directory"):
        saved.save(1, *state(1))
    reports = []
    saved.save(2, *state(2), reports.append)
    assert [report.cause for report in reports] == ["cannot be removed: Is a directory"]
    assert steps(tmp_path) == [2]


def test_prepare_leaves_nothing(tmp_path):
    saved = CheckpointDir(tmp_path / "new", keep=1)
    saved.prepare(0, 10)
    assert os.listdir(tmp_path / "new") == []
    (tmp_path / "new" / "step-000000000005.h5").mkdir()
    saved.prepare(5, 10)
    with pytest.raises(CheckpointError, match="is a folder in the place of a checkpoint"):
        saved.prepare(4, 10)
