"""What the page of the algorithms shows is what runs: its pictures, its formulas, its papers."""

import itertools
import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from collectives.closed_form import FORMS
from collectives.collective import BARRIER
from collectives.counts import counts
from collectives.draw import draw_svg
from collectives.messages import messages_of
from collectives.model import Model
from collectives.registry import REGISTRY
from collectives.simulate import simulate
from tests.conftest import LAUNCH

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "algorithms.md").read_text()
COLLECTIVES = (DOCS / "collectives.md").read_text()
PICTURES = runpy.run_path(str(DOCS / "pictures.py"))["pictures"]()
SECTIONS = {
    tuple(title.split()): text
    for title, text in re.findall(r"^### (\w+ \w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.M)
}


def key_of(algorithm):
    return algorithm.collective.name, algorithm.name


ALL = [pytest.param(a, id=f"{a.collective.name}-{a.name}") for a in REGISTRY.all()]


def test_every_algorithm_has_a_section_and_every_section_an_algorithm():
    assert set(SECTIONS) == {(a.collective.name, a.name) for a in REGISTRY.all()}


def test_the_readme_and_the_changelog_count_them():
    for page in ("README.md", "CHANGELOG.md"):
        assert f"{len(REGISTRY.all())} algorithms" in (DOCS.parent / page).read_text()


def test_the_snippets_for_users_of_mpi_run(tmp_path):
    snippets = re.findall(r"^```python\n(.*?)^```", COLLECTIVES, re.DOTALL | re.M)
    (tmp_path / "page.py").write_text("\n".join(snippets))
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, "2", sys.executable, str(tmp_path / "page.py")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_pictures_are_up_to_date():
    assert {p.name for p in DOCS.glob("pictures/*.svg") if "bench" not in p.name} == set(PICTURES)
    for name, (algorithm, ranks) in PICTURES.items():
        assert (DOCS / "pictures" / name).read_text() == draw_svg(algorithm, ranks), name


@pytest.mark.parametrize("algorithm", ALL)
def test_a_section_names_paper_picture_and_tunables(algorithm):
    text = SECTIONS[algorithm.collective.name, algorithm.name]
    plain = " ".join(text.split())
    assert f"Paper: {algorithm.paper}." in plain
    assert f"(pictures/{algorithm.collective.name}-{algorithm.name}.svg)" in text
    assert re.findall(r"`(\w+)` \((\w+)\)", plain) == [
        (key, str(tunable.default)) for key, tunable in algorithm.tunables.items()
    ]


@pytest.mark.parametrize("algorithm", ALL)
def test_each_paper_is_in_the_list(algorithm):
    listed = PAGE.split("\n## papers\n")[1]
    for paper in algorithm.paper.split("; "):
        assert f"\n- {paper}: " in listed


@pytest.mark.parametrize("algorithm", ALL)
def test_the_formulas_are_those_of_the_schedule(algorithm):
    rounds, messages, nbytes, time = cells(SECTIONS[algorithm.collective.name, algorithm.name])
    if algorithm.name == "hierarchical":
        return  # they are those of its phases
    form = FORMS.get((algorithm.collective.name, algorithm.name))
    assert time == (form.text if form else "—")
    for p in (4, 5, 7, 8, 12, 13):
        known = counts(algorithm, p)
        n = p if algorithm.collective is BARRIER else 1
        agree(rounds, messages_of(algorithm, p)[0], algorithm, p, n)
        agree(messages, known.most_messages, algorithm, p, n)
        agree(nbytes, known.most_volume * n, algorithm, p, n)


WITH_TIMES = [a for a in ALL if key_of(*a.values) in FORMS]
CONDITIONS = {
    "for p = 2^d": lambda p: p & (p - 1) == 0,
    "for p > 2": lambda p: p > 2,
    "for p-1 <= w": lambda p: p - 1 <= 32,
}
DEFINITIONS = {"q = 2^floor(lg p)", "x y = p", "S segments"}
FAST_SUMS = Model(2e-6, 8e-11, 5e-11)  # sums take less time than the wire, or more
SLOW_SUMS = Model(2e-6, 8e-11, 1e-10)
OVERHEADS = [Model(2e-6, 8e-11, 5e-11, o, g) for o, g in ((4e-7, 9e-7), (9e-7, 4e-7))]


@pytest.mark.parametrize("algorithm", WITH_TIMES)
def test_the_times_are_those_of_the_simulation(algorithm):
    formula, *conditions = re.split(r", (?=for |q =|x y|S seg)", FORMS[key_of(algorithm)].text)
    assert set(conditions) <= {*CONDITIONS, *DEFINITIONS}
    # Where a rank sends several messages in a round the page leaves o and g out: L stands alone.
    models = [FAST_SUMS, SLOW_SUMS, *([] if re.search(r"\bL\b", formula) else OVERHEADS)]
    compared = 0
    for p in (2, 3, 4, 5, 7, 8, 12, 13, 16, 33, 64):
        if not all(CONDITIONS[c](p) for c in conditions if c in CONDITIONS):
            continue
        for m, n in itertools.product(models, (256, 1 << 22)):
            b = p if algorithm.collective is BARRIER else n
            value = evaluated(
                formula,
                algorithm,
                p,
                b,
                L=m.latency,
                G=m.byte_time,
                c=m.reduce_time,
                o=m.overhead,
                t=lambda b, m=m: m.latency + 2 * m.overhead + b * m.byte_time,
                u=lambda b, m=m: max(m.overhead + b * m.byte_time, m.gap),
            )
            assert math.isclose(value, simulate(algorithm, p, n, m).seconds), (formula, p, n, m)
            compared += 1
    assert compared >= 10


def cells(section):
    row = [line for line in section.splitlines() if line.startswith("| ")][1]
    return [cell.strip() for cell in row.strip("|").split("|")]


def agree(formula, number, algorithm, p, n):
    """Compare a formula of the page with a number."""
    bound = "up to" in formula
    value = evaluated(formula.replace("up to", ""), algorithm, p, n)
    if number is not None:
        assert number <= value + 1e-9 if bound else math.isclose(number, value), (formula, p)


def evaluated(formula, algorithm, p, n, **more):
    """Evaluate a formula as the page writes it: products have no sign, [...] is optional."""
    q = 1 << (p.bit_length() - 1)
    text = re.sub(r"\[(.*?)\]", "" if q == p else r"\1", formula)
    text = re.sub(r"(lg|log_k) (\w)", r"\1(\2)", text)
    text = re.sub(r"(?<=[\w)]) (?=[\w(])|(?<=\d)(?=[a-z])", " * ", text)
    settings = {key: tunable.default for key, tunable in algorithm.tunables.items()}
    x = max(x for x in range(1, math.isqrt(p) + 1) if p % x == 0)
    names = {"p": p, "q": q, "n": n, "d": (p - 1).bit_length(), "x": x, "y": p // x}
    names |= {"S": settings.get("segments"), "w": settings.get("window"), "ceil": math.ceil}
    names |= {"k": settings.get("radix"), "lg": math.log2, "log_k": math.log2}
    return eval(text, names | more)
