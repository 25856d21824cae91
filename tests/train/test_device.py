"""Training on device arrays, through a double over host memory: the curves of the host."""

import numpy as np
import pytest

import hpcdl.run
from hpcdl.config import load
from tests.collectives.fakedevice import Counts, FakeNamespace
from tests.train.tools import final, losses, write_config


@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize(
    "sets",
    [
        (),
        ("grid.height=2",),
        ("compression.codec='qsgd'",),
        ("consistency.name='local_sgd'", "consistency.period=2"),
    ],
    ids=lambda sets: sets[0] if sets else "plain",
)
def test_the_curves_of_the_host(comm, shared_tmp_path, monkeypatch, sets):
    device = FakeNamespace(Counts())
    monkeypatch.setattr(hpcdl.run, "array_module", {"cpu": np, "cuda": device}.get)
    if comm.rank == 0:
        write_config(shared_tmp_path, shared_tmp_path)
    comm.Barrier()
    for name in ("cpu", "cuda"):
        more = (f"run.device='{name}'", f"run.dir='{shared_tmp_path / name}'", *sets)
        more += ("train.epochs=1", "run.progress='none'")
        config = load(shared_tmp_path / "net.toml", more)
        hpcdl.run.run(config, comm)
    assert device.counts.up > 0
    if comm.rank == 0:
        host, got = shared_tmp_path / "cpu", shared_tmp_path / "cuda"
        # Rounding decides what a codec sends: those curves are only near.
        near = 0.05 if "codec" in "".join(sets) else 1e-10
        np.testing.assert_allclose(losses(got), losses(host), rtol=near)
        assert final(got).keys() == final(host).keys()
