"""The same training on any number of ranks and any grid."""

import numpy as np
import pytest

from tests.train.tools import final, losses, metrics, train, write_config

SHAPES = [(2, 1), (3, 1), (4, 1), (1, 2), (1, 3), (1, 4), (2, 2)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def serial(tmp_path_factory, data):
    directory = tmp_path_factory.mktemp("serial")
    train(write_config(directory, data))
    return directory / "run"


def test_training_learns(serial):
    lines = metrics(serial)
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert [line["step"] for line in lines] == [23, 46, 69]
    assert lines[-1]["test_accuracy"] > 0.85
    assert lines[-1]["wire_bytes_per_step"] == 0


@pytest.mark.parametrize(("data_ranks", "height_ranks"), SHAPES)
def test_the_curves_and_weights_equal_those_of_one_rank(
    tmp_path, data, serial, data_ranks, height_ranks
):
    config = write_config(tmp_path, data)
    train(
        config,
        f"grid.data={data_ranks}",
        f"grid.height={height_ranks}",
        ranks=data_ranks * height_ranks,
    )
    np.testing.assert_allclose(losses(tmp_path / "run"), losses(serial), rtol=1e-12)
    ours, theirs = final(tmp_path / "run"), final(serial)
    for name, array in theirs.items():
        if not name.startswith("ranks/"):
            scale = np.abs(array).max()
            np.testing.assert_allclose(ours[name], array, rtol=1e-12, atol=1e-12 * scale)


def test_local_sgd_with_period_1_equals_synchronous(tmp_path, data, serial):
    config = write_config(tmp_path, data)
    train(config, "consistency.name='local_sgd'", "consistency.period=1", ranks=3)
    np.testing.assert_allclose(losses(tmp_path / "run"), losses(serial), rtol=1e-11)


def test_two_runs_have_the_same_bits(tmp_path, data):
    config = write_config(tmp_path, data)
    for name in ("a", "b"):
        train(config, f"run.dir='{tmp_path / name}'", "run.dtype='float32'", ranks=4)
    assert losses(tmp_path / "a") == losses(tmp_path / "b")
    first, second = final(tmp_path / "a"), final(tmp_path / "b")
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


@pytest.mark.ranks(1, 2, 3, 4, 8)
@pytest.mark.parametrize("codec", ["none", "qsgd", "topk"])
def test_weights_are_bitwise_equal_on_all_ranks_after_every_step(comm, shared_tmp_path, codec):
    from hpcdl.config import load
    from hpcdl.run import run

    class Watch:
        def __init__(self):
            self.seen = 0

        def after_step(self, run):
            mine = run.model.parameters.tobytes()
            assert len(set(comm.allgather(mine))) == 1
            self.seen += 1

        def start(self, run):
            pass

        after_epoch = stopped = end = start

    watch = Watch()
    config = write_config(shared_tmp_path, shared_tmp_path) if comm.rank == 0 else None
    config = load(
        str(comm.bcast(config)),
        [
            "train.epochs=1",
            "schedule.warmup_epochs=0",
            f"compression.codec='{codec}'",
            "run.progress='none'",
            "run.dtype='float32'",
        ],
    )
    run(config, comm, hooks=[watch])
    assert watch.seen == 23
