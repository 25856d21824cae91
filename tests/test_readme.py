"""What the README shows runs, and what it links to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LAUNCH

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_first_program_trains(tmp_path):
    program = re.search(r"## Train something\n\n```python\n(.*?)```", README, re.DOTALL)[1]
    (tmp_path / "first.py").write_text(program)
    assert len([line for line in program.splitlines() if line]) <= 15
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, "2", sys.executable, str(tmp_path / "first.py")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert float(re.search(r"acc ([\d.]+) %", last)[1]) > 97, done.stdout
    assert "step 280/280" in last


@pytest.mark.parametrize("page", ["README.md", *sorted(p.name for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_the_ring_in_the_readme_is_the_one_that_runs():
    source = (ROOT / "collectives/algorithms/ring.py").read_text()
    code = re.search(r"This is all of the ring.*?```python\n(.*?)```", README, re.DOTALL)[1]
    for line in code.splitlines():
        typed = "rank: Any, size: int, segments: int = 1) -> Iterator[Round]:"
        plain = line.replace("rank, size, segments=1):", typed)
        plain = plain if line.startswith("def") else line
        assert plain in source, line
