"""The test cluster itself leaves nothing behind."""

from pathlib import Path

import pytest

from tests.slurm_cluster import processes, slurm_cluster, why_not


def test_nothing_outlives_an_exception(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    script = "#!/bin/bash\n#SBATCH --nodes=2 --output=log\nsrun sleep 300 & wait\n"
    roots = []

    def fail_in_the_middle_of_a_job() -> None:
        with slurm_cluster(nodes=2) as cluster:
            roots.append(cluster.root)
            cluster.wait(cluster.submit(script, tmp_path), "RUNNING")
            # munged, slurmctld with its script runner, two slurmd
            assert len(processes(cluster.root)) >= 5
            raise KeyError

    with pytest.raises(KeyError):
        fail_in_the_middle_of_a_job()
    assert processes(roots[0]) == []
    assert not roots[0].exists()


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.slurm_cluster._PATH", str(tmp_path))
    assert "munged, slurmctld, slurmd" in why_not()
