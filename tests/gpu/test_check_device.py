"""The checks for a machine with a GPU, as far as they run without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectives.fakedevice import Counts, FakeNamespace
from tests.gpu import check_device, on_device

SCRIPT = Path(check_device.__file__)
ON_THE_DOUBLE = sorted({*on_device.PARTS} - {"other_libraries", "every_algorithm"})


def run(*words):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, timeout=60
    )


def gpu():
    look = subprocess.run([sys.executable, "-c", check_device.LOOK], capture_output=True)
    return look.returncode == 0


@pytest.mark.skipif(gpu(), reason="there is a GPU here")
def test_without_a_gpu_nothing_counts_as_checked():
    done = run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("nothing was checked: ")
    assert "GPU" in done.stderr or "cupy" in done.stderr


def test_help():
    done = run("--help")
    assert done.returncode == 0
    for word in ("--ranks", "--parts", "--seconds", *check_device.PARTS):
        assert word in done.stdout


def test_each_part_is_known_on_both_sides():
    assert set(check_device.PARTS) == {*on_device.PARTS, "training"}


@pytest.mark.ranks(1, 2, 4)
@pytest.mark.parametrize("part", ON_THE_DOUBLE)
def test_parts_on_the_double(comm, part):
    """The parts themselves are right; the two that are left out are tested elsewhere."""
    sizes = {"streams": (100,), "staging": (1 << 17,), "timings": ((1,), 1)}
    said = on_device.PARTS[part](comm, FakeNamespace(Counts()), *sizes.get(part, ()))
    assert said


def script(tmp_path, code):
    path = tmp_path / "program.py"
    path.write_text(code)
    return [sys.executable, str(path)]


def test_what_goes_wrong_is_told(tmp_path):
    assert check_device.run(script(tmp_path, "print('fine')"), 30) == "fine\n"
    with pytest.raises(check_device.Wrong, match=r"ended with 3\n.*bad"):
        check_device.run(script(tmp_path, "print('bad'); raise SystemExit(3)"), 30)
    with pytest.raises(check_device.Wrong, match="did not end in 1 s"):
        check_device.run(script(tmp_path, "import time; time.sleep(60)"), 1)


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("sys.exit('broken')", 1)])
def test_the_exit_code(tmp_path, monkeypatch, capsys, ending, code):
    """With a GPU: 0 if all is right, 1 if a rank is not."""
    monkeypatch.setattr(check_device, "LOOK", "")
    made = script(
        tmp_path,
        "import json, sys\n"
        "line = {'part': 'streams', 'said': 'did it', 'seconds': 1}\n"
        f"open(sys.argv[-1], 'w').write(json.dumps(line)); {ending}\n",
    )
    monkeypatch.setattr(
        "collectives.launch.mpiexec_command", lambda ranks, program: [*made, *program[2:]]
    )
    assert check_device.main(["--ranks", "1", "--parts", "streams"]) == code
    out, err = capsys.readouterr()
    assert "did it" in out
    assert ("all is right" in out) == (code == 0)
    assert ("WRONG on 1 ranks: ended with 1" in err) == (code == 1)
