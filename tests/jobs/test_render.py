"""The text of rendered scripts, and what is refused before there is a text."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.render import Job, Site, load_site, render
from jobs.site import shipped_sites

JOB = Job("train", ("python", "-m", "prog"), nodes=3, ranks_per_node=4, cpus_per_rank=2, minutes=30)
SITE = Site("here")


def options(script: str) -> list[str]:
    return re.findall(r"^#SBATCH (.*)$", script, re.MULTILINE)


def launched(script: str) -> list[str]:
    """Words of the command that the script puts into the background, as bash reads them."""
    (text,) = re.findall(r"^((?:srun|mpiexec) .*(?:\\\n.*)*) &$", script, re.MULTILINE)
    show = f"printf '%s\\0' {text}"
    done = subprocess.run(["bash", "-uc", show], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def check_syntax(script: str) -> None:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_options_are_those_of_the_job() -> None:
    assert options(render(JOB, SITE)) == [
        "--job-name=train",
        "--output=%x-%j.out",
        "--open-mode=append",
        "--nodes=3",
        "--ntasks-per-node=4",
        "--cpus-per-task=2",
        "--time=30",
        "--no-requeue",
        "--signal=B:USR1@60",
    ]


def test_options_come_before_the_first_command() -> None:
    lines = render(JOB, replace(SITE, directives=("--exclusive",))).splitlines()
    assert lines[0] == "#!/bin/bash"
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[first:])
    assert "#SBATCH --exclusive" in lines[:first]


def test_options_of_site_then_job_follow() -> None:
    job = replace(JOB, directives=("--account=physics",), requeues=2, signal_s=0)
    found = options(render(job, replace(SITE, directives=("--exclusive", "--comment=two words"))))
    assert found[-4:] == [
        "--requeue",
        "--exclusive",
        '--comment="two words"',
        "--account=physics",
    ]


@pytest.mark.parametrize("launcher", ["pmi2", "pmix", "pmix_v4", "cray_shasta"])
def test_srun_starts_the_ranks(launcher: str) -> None:
    site = replace(SITE, launcher=launcher, launcher_args=("--cpu-bind=cores",))
    assert launched(render(JOB, site)) == [
        "srun",
        f"--mpi={launcher}",
        "--nodes=3",
        "--ntasks-per-node=4",
        "--cpus-per-task=2",
        "--kill-on-bad-exit=1",
        "--cpu-bind=cores",
        "python",
        "-m",
        "prog",
    ]


def test_mpiexec_starts_the_ranks() -> None:
    site = replace(SITE, launcher="mpiexec", launcher_args=("--bind-to", "none"))
    script = render(JOB, site)
    words = ["mpiexec", "-n", "12", "--bind-to", "none", "python", "-m", "prog"]
    assert launched(script) == words
    assert "srun " not in "".join(line for line in script.splitlines() if line[:1] != "#")


HARD = [
    "a b",
    "it's",
    'say "x"',
    "$HOME",
    "`id`",
    "$(id)",
    "a;b",
    "a&b",
    "@{threads}",
    "é",
    "",
    "\\",
]


def test_arguments_reach_the_program_unchanged() -> None:
    script = render(replace(JOB, command=("prog", *HARD)), SITE)
    check_syntax(script)
    assert launched(script)[-len(HARD) - 1 :] == ["prog", *HARD]


@pytest.mark.parametrize("launcher", ["pmi2", "mpiexec"])
@pytest.mark.parametrize("setup", [(), ("module load mpich", "source 'my env'/bin/activate")])
def test_script_is_bash_and_sets_up_before_it_launches(
    launcher: str, setup: tuple[str, ...]
) -> None:
    script = render(JOB, replace(SITE, launcher=launcher, setup=setup))
    check_syntax(script)
    lines = script.splitlines()
    places = [lines.index(line) for line in ("set -eo pipefail", *setup)]
    places += [next(i for i, line in enumerate(lines) if line.startswith("set -u"))]
    places += [lines.index("export OMP_NUM_THREADS=2"), lines.index("child=$!")]
    assert places == sorted(places)


def test_nothing_is_left_of_the_template() -> None:
    assert "@{" not in render(JOB, SITE)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", ""),
        ("name", "a\n#SBATCH --uid=0"),
        ("name", "a b"),
        ("name", 'a"'),
        ("name", "-a"),
        ("name", "a" * 65),
        ("name", 3),
        ("command", ()),
        ("command", ("",)),
        ("command", ("a", "b\nc")),
        ("command", ("a", "b\0")),
        ("command", "python"),
        ("command", ("a", 1)),
        ("nodes", 0),
        ("nodes", -1),
        ("nodes", 2.0),
        ("nodes", True),
        ("nodes", "2"),
        ("ranks_per_node", 0),
        ("cpus_per_rank", 0),
        ("minutes", 0),
        ("minutes", 366 * 24 * 60 + 1),
        ("signal_s", -1),
        ("signal_s", 30 * 60),
        ("requeues", -1),
        ("output", ""),
        ("output", "a\nb"),
        ("output", 'a"b'),
        ("output", "a'b"),
        ("output", "a#b"),
        ("output", "a\\b"),
        ("directives", ("exclusive",)),
        ("directives", ("-n 3",)),
        ("directives", ("--nodes=5",)),
        ("directives", ("--signal=B:USR2",)),
        ("directives", ("--comment=a\nb",)),
        ("directives", ("--comment='a'",)),
        ("directives", ["--exclusive"]),
    ],
)
def test_job_refuses_by_name_and_value(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{argument}.* is .*, but must|^{argument}.*, but --"):
        replace(JOB, **{argument: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("name", "a/b"),
        ("launcher", "openmpi"),
        ("launcher", "none"),
        ("launcher", "pmi2 --overlap"),
        ("launcher", 2),
        ("launcher_args", ("a\nb",)),
        ("directives", ("--time=3",)),
        ("setup", ("module load a\nexit",)),
        ("setup", "module load a"),
        ("cpus_per_node", -1),
        ("max_nodes", 1.5),
        ("max_minutes", "60"),
    ],
)
def test_site_refuses_by_name_and_value(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{argument}.* is .*, but must|^{argument}.*, but --"):
        replace(SITE, **{argument: value})  # type: ignore[arg-type]


def test_longest_warning_is_just_shorter_than_the_limit() -> None:
    assert "--signal=B:USR1@1799" in render(replace(JOB, signal_s=1799), SITE)


@pytest.mark.parametrize(
    ("limit", "allowed", "message"),
    [
        ("cpus_per_node", 8, r"ranks_per_node x cpus_per_rank is 4 x 2 = 8, .* at most 7 on site"),
        ("max_nodes", 3, r"nodes is 3, but must be at most 2 on site 'here'"),
        ("max_minutes", 30, r"minutes is 30, but must be at most 29 on site 'here'"),
    ],
)
def test_site_refuses_what_does_not_fit(limit: str, allowed: int, message: str) -> None:
    render(JOB, replace(SITE, **{limit: allowed}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        render(JOB, replace(SITE, **{limit: allowed - 1}))  # type: ignore[arg-type]


def test_every_shipped_site_renders() -> None:
    assert "generic" in shipped_sites()
    for name in shipped_sites():
        site = load_site(name)
        assert site.name == name
        check_syntax(render(Job("a", ("true",)), site))


def test_site_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_text(
        'launcher = "mpiexec"\nlauncher_args = ["-v"]\ndirectives = ["--exclusive"]\n'
        'setup = ["module load a"]\ncpus_per_node = 64\nmax_nodes = 8\nmax_minutes = 1440\n'
    )
    assert load_site(str(path)) == Site(
        "big", "mpiexec", ("-v",), ("--exclusive",), ("module load a",), 64, 8, 1440
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lancher = 'pmi2'",
            r"unknown key 'lancher'; did you mean 'launcher'\? Allowed: launcher, ",
        ),
        ("name = 'x'", "unknown key 'name'"),
        ("launcher = 2", "launcher is 2, but must be"),
        ("launcher = 'pmi3'", "launcher is 'pmi3', but must be 'pmi2', 'pmix'"),
        ("setup = 'module load a'", "setup is 'module load a', but must be a tuple"),
        ("setup = ['''a\nb''']", r"setup\[0\] is 'a\\nb', but must be one line"),
        ("max_nodes = '4'", "max_nodes is '4', but must be a whole number"),
        ("max_nodes = true", "max_nodes is True, but must be a whole number"),
        ("launcher = \n", "not TOML: .* line 1"),
    ],
)
def test_site_file_is_refused_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"site file '{path}'.*{message}"):
        load_site(str(path))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "site is 'nowhere', but must be one of generic, or the path of a file"),
        ("../sites/generic", "but must be one of generic"),
        ("nowhere.toml", "site file 'nowhere.toml' cannot be read: .*No such file"),
    ],
)
def test_unknown_site_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_site(name)
