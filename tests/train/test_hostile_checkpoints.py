"""What a checkpoint with a right checksum may hold, and what becomes of a run that gets it."""

import os
import shutil

import numpy as np
import pytest

from hpcdl.batches import ArraySamples, Batches
from hpcdl.checkpoint import CheckpointDir, read, write
from hpcdl.compression import QSGD, ErrorFeedback, TopK
from hpcdl.consistency import LocalSGD, Synchronous
from hpcdl.errors import DivergedError, UserError
from hpcdl.hooks import Checkpoints
from hpcdl.loop import advance, prepare
from hpcdl.model import Model
from hpcdl.nn import BatchNorm, Dense, Sequential
from hpcdl.optim import SGD
from hpcdl.snapshot import capture, check, restore
from hpcdl.snapshot.meaning import identity
from tests.train.tools import checkpoints, losses, start_from, train, write_config

one = pytest.mark.ranks(1)

TOPK = Synchronous(codec=ErrorFeedback(TopK(0.1)))


@pytest.fixture
def make(comm):
    """Make runs of all ranks that are set up and closed again."""
    runs = []

    def make(consistency=None, momentum=0.9, batch=10, units=3, dtype="float64", steps=5, **more):
        rng = np.random.default_rng(0)
        samples = ArraySamples(rng.standard_normal((25, 4)), rng.integers(0, 3, 25))
        network = Sequential([Dense(units), BatchNorm(), Dense(3)])
        model = Model.create(network, (4,), dtype=dtype)
        data = Batches(samples, batch, dtype=dtype)
        runs.append(
            prepare(
                model,
                data,
                SGD(0.1, momentum),
                consistency or Synchronous(),
                comm,
                steps=steps,
                **more,
            )
        )
        return runs[-1]

    yield make
    for run in runs:
        run.consistency.close(run.consistency_state)


def state(run):
    """Train, and return what a checkpoint would hold."""
    advance(run)
    tensors, attrs = capture(run)
    return {name: array.copy() for name, array in tensors.items()}, attrs


def as_rows(tensors, name, ranks):
    """Store a vector as ranks that differ would."""
    leaves = [n for n in tensors if n.startswith(f"{name}/")]
    row = np.concatenate([tensors.pop(n).ravel() for n in leaves])
    tensors[f"ranks/{name}"] = np.stack([row * (1 + r) for r in range(ranks)])


@pytest.mark.parametrize("consistency", [Synchronous(), TOPK, LocalSGD(2)], ids=identity)
@one
def test_what_a_run_leaves_fits_it(make, consistency):
    tensors, attrs = state(make(consistency))
    assert check(make(consistency), 5, tensors, attrs) is None


def test_what_a_part_is_is_told_apart_from_how_it_is_computed():
    assert identity(Synchronous("ring", TopK(0.1), "auto", 3)) == identity(
        Synchronous("tree", TopK(0.1), "gather", 4)
    )
    kinds = [Synchronous(), Synchronous(codec=TopK(0.1)), Synchronous(codec=TopK(0.2)), TOPK]
    kinds += [Synchronous(codec=QSGD(4)), Synchronous(codec=QSGD(8)), LocalSGD(1), LocalSGD(2)]
    assert len({identity(kind) for kind in kinds}) == len(kinds)


def without(key):
    def change(tensors, attrs):
        (tensors if key in tensors else attrs).pop(key)

    return change


def attribute(name, value):
    return lambda tensors, attrs: attrs.update({name: value})


def tensor(name, change):
    def changed(tensors, attrs):
        tensors[name] = change(tensors[name]) if callable(change) else change

    return changed


def rows(change, name="params"):
    def changed(tensors, attrs):
        as_rows(tensors, name, 1)
        tensors[f"ranks/{name}"] = change(tensors[f"ranks/{name}"])

    return changed


def everything_gone(tensors, attrs):
    tensors.clear()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (attribute("step", -5), "attribute step is -5"),
        (attribute("step", "x"), "attribute step is 'x'"),
        (attribute("step", 5.0), "attribute step is 5.0"),
        (attribute("step", 10**18), "attribute step is 1000000000000000000"),
        (attribute("step", 10**5000), "attribute step is an integer of over 40 digits"),
        (attribute("step", 4), "the file is named after step 5"),
        (attribute("ranks", 0), "attribute ranks is 0"),
        (attribute("ranks", "1"), "attribute ranks is '1'"),
        (attribute("ranks", 5), "needs a row for each of the 5 ranks"),
        (attribute("seconds", float("nan")), "attribute seconds is nan"),
        (attribute("seconds", float("inf")), "attribute seconds is inf"),
        (attribute("seconds", -1), "attribute seconds is -1"),
        (attribute("consistency", 3), "attribute consistency is 3"),
        (without("step"), "no attribute 'step'"),
        (without("ranks"), "no attribute 'ranks'"),
        (without("batch"), "no attribute 'batch'"),
        (without("ranks/tally"), "no ranks/tally"),
        (tensor("ranks/tally", np.zeros((1, 4))), "ranks/tally has shape (1, 4)"),
        (tensor("ranks/tally", np.zeros((2, 2))), "ranks/tally has shape (2, 2)"),
        (tensor("ranks/tally", np.zeros((2, 3))), "ranks/tally has shape (2, 3)"),
        (tensor("ranks/tally", np.array(0.0)), "ranks/tally has shape ()"),
        (tensor("ranks/tally", np.zeros((1, 3), complex)), "complex128"),
        (tensor("ranks/tally", np.zeros((1, 3), np.float32)), "float32"),
        (rows(lambda a: np.zeros(3)), "ranks/params has shape (3,)"),
        (rows(lambda a: a[0, :1]), "ranks/params has shape (1,)"),
        (rows(lambda a: np.concatenate([a, a])), "ranks/params has shape (2, "),
        (rows(lambda a: a.astype(complex)), "complex128"),
        (rows(lambda a: a * np.inf), "ranks/params is not finite"),
        (rows(lambda a: a[:, 1:], "optimizer/velocity"), "ranks/optimizer/velocity has shape"),
        (tensor("params/0.weight", lambda a: a * np.nan), "params/0.weight is not finite"),
        (tensor("params/0.weight", lambda a: a.astype(">f8")), "dtype >f8"),
        (tensor("optimizer/velocity/0.bias", lambda a: a[1:]), "velocity/0.bias has shape (2,)"),
        (without("optimizer/velocity/0.bias"), "no optimizer/velocity/0.bias"),
        (tensor("ranks/params", np.zeros((1, 30))), "both for each rank and for all"),
        (tensor("ranks/consistency/residual", np.zeros((1, 30))), "which nothing takes"),
        (tensor("other", np.zeros(1)), "'other', which nothing takes"),
        (everything_gone, "no params"),
    ],
)
@one
def test_unfit_content_is_told(make, change, text):
    tensors, attrs = state(make())
    change(tensors, attrs)
    assert text in check(make(), 5, tensors, attrs)


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ({}, {"batch": 12}, ["train.batch 10, this one 12"]),
        ({}, {"seed": 1}, ["run.seed 0, this one 1"]),
        ({}, {"dtype": "float32"}, ["run.dtype float64, this one float32"]),
        ({}, {"momentum": 0.0}, ["optimizer.momentum", "velocity", "keeping nothing"]),
        ({"momentum": 0.0}, {}, ["optimizer.momentum", "velocity", "keeping nothing"]),
        ({}, {"units": 4}, ["another network"]),
        ({"consistency": TOPK}, {}, ["residual", "[compression]", "density=0.1", "codec=None"]),
        ({"consistency": TOPK}, {"consistency": LocalSGD(2)}, ["residual", "LocalSGD"]),
        ({}, {"consistency": TOPK}, ["no 'residual'", "[compression]"]),
    ],
)
@one
def test_what_would_be_lost_or_mean_something_else_is_refused(make, before, after, texts):
    tensors, attrs = state(make(**before))
    with pytest.raises(UserError) as caught:
        check(make(**after), 5, tensors, attrs)
    for text in ["--resume", *texts]:
        assert text in str(caught.value)


@one
def test_rows_of_another_network_are_refused(make):
    tensors, attrs = state(make())
    as_rows(tensors, "params", 1)
    with pytest.raises(UserError, match="another network"):
        check(make(units=4), 5, tensors, attrs)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("stored", [2, 3])
@pytest.mark.parametrize("after", [Synchronous(), LocalSGD(3)], ids=identity)
def test_rows_of_another_consistency_are_averaged(make, comm, after, stored):
    """Ranks that hold 1, 2 and 3 times some weights, also where as many ranks go on."""
    tensors, attrs = state(make(LocalSGD(2)))
    mean = (1 + stored) / 2
    want = {n: mean * a for n, a in tensors.items() if n.startswith(("params", "optimizer"))}
    for name in ("params", "optimizer/velocity"):
        as_rows(tensors, name, stored)
    tensors["ranks/tally"] = np.arange(3.0 * stored).reshape(stored, 3)
    attrs["ranks"] = stored
    run = make(after)
    if comm.rank == 0:
        assert check(run, 5, tensors, attrs) is None
    restore(run, tensors if comm.rank == 0 else {}, attrs if comm.rank == 0 else {})
    got, _ = capture(run)
    for name, array in want.items():  # by their own names: the same on all ranks
        np.testing.assert_allclose(got[name], array, rtol=1e-14)
    total = {2: [3, 5, 7], 3: [9, 12, 15]}[stored]
    np.testing.assert_array_equal(run.tally, np.array(total) / comm.size)


@one
def test_a_residual_goes_on_under_another_density(make):
    tensors, attrs = state(make(TOPK))
    tensors["ranks/consistency/residual"] += 1.5
    run = make(Synchronous(codec=ErrorFeedback(TopK(0.5))))
    assert check(run, 5, tensors, attrs) is None
    restore(run, tensors, attrs)
    (kept,) = run.consistency.arrays(run.consistency_state).values()
    np.testing.assert_array_equal(kept, tensors["ranks/consistency/residual"][0])


@pytest.mark.parametrize("what", ["velocity", "buffers", "residual"])
@one
def test_a_state_that_is_not_finite_is_not_saved(make, what):
    run = make(TOPK)
    {
        "velocity": run.optimizer_state.get("velocity"),
        "buffers": run.model.packed.buffers,
        **run.consistency.arrays(run.consistency_state),
    }[what][0] = np.inf
    with pytest.raises(DivergedError, match=f"{what} after step 0 are not finite"):
        capture(run)


@one
def test_an_unfit_one_is_reported_and_the_one_before_is_used(make, tmp_path):
    run = make()
    tensors, attrs = state(run)
    folder = CheckpointDir(tmp_path, 5)
    folder.save(5, tensors, attrs)
    folder.save(6, tensors, attrs)
    del tensors["ranks/tally"]
    folder.save(7, tensors, attrs | {"step": 7})
    os.mkfifo(tmp_path / "step-000000000009.h5")
    reports = []
    again = make()
    assert Checkpoints(tmp_path, 1, 0, 3).resume(again, reports.append)
    assert again.step == 5
    assert [str(error).split("step-00000000000")[1][0] for error in reports] == ["9", "7", "6"]
    np.testing.assert_array_equal(again.model.parameters, run.model.parameters)


@one
def test_one_of_another_run_is_refused_though_one_before_fits(make, tmp_path):
    folder = CheckpointDir(tmp_path, 5)
    folder.save(5, *state(make()))
    folder.save(6, *state(make(seed=1, steps=6)))
    with pytest.raises(UserError, match=r"run\.seed 1, this one 0"):
        Checkpoints(tmp_path, 1, 0, 3).resume(make(), pytest.fail)


@pytest.mark.parametrize("kind", ["file", "folder in the way"])
@one
def test_a_place_that_cannot_be_written_is_found_before_the_first_step(make, tmp_path, kind):
    path = tmp_path / "checkpoints"
    if kind == "file":
        path.write_bytes(b"")
        text = "no checkpoint can be written here: File exists"
    else:
        (path / "step-000000000003.h5").mkdir(parents=True)
        text = r"step-000000000003\.h5: is a folder in the place of a checkpoint"
    run = make()
    with pytest.raises(UserError, match=text):
        advance(run, [Checkpoints(path, 1, 0, 3)])
    assert run.step == 0


@one
def test_folders_that_are_not_in_the_way_do_no_harm(make, tmp_path):
    for step in (0, 6):
        (tmp_path / f"step-{step:012}.h5").mkdir()
    advance(make(), [Checkpoints(tmp_path, 0, 1, 1)])
    assert sorted(os.listdir(tmp_path)) == [f"step-{step:012}.h5" for step in (0, 5, 6)]


def test_local_weights_go_on_as_synchronous_ones(tmp_path):
    """Within an epoch and a period; all ranks must then hold one and the same weights."""
    config = write_config(tmp_path, tmp_path)
    local = ["consistency.name='local_sgd'", "consistency.period=7", "checkpoint.every_steps=10"]
    train(config, *local, "train.epochs=1", "schedule.name='constant'", ranks=2)
    again = tmp_path / "again"
    start_from(tmp_path / "run", 0, again)
    stored, _ = read(checkpoints(again)[0])
    assert "ranks/params" in stored
    sets = ["train.epochs=2", "checkpoint.every_steps=4", f"run.dir='{again}'"]
    train(config, *sets, ranks=2, options=["--resume"])
    for path in checkpoints(again)[1:]:
        tensors, _ = read(path)
        assert {n for n in tensors if n.startswith("ranks/")} == {"ranks/tally"}


def test_hostile_files_neither_stop_nor_hang_a_run(tmp_path):
    config = write_config(tmp_path, tmp_path)
    train(config, "train.epochs=2", ranks=2)
    run = tmp_path / "run"
    want = losses(run)
    newest = checkpoints(run)[-1]
    tensors, attrs = read(newest)
    del tensors["ranks/tally"]
    write(newest, tensors, attrs)
    shutil.copy(newest, newest.with_name("step-000000000050.h5"))
    os.mkfifo(newest.with_name("step-000000000060.h5"))
    options = ["--resume"]
    done = train(config, "train.epochs=2", ranks=2, options=options, timeout=60)
    assert done.stdout.count("broken checkpoint") == 3
    assert "resume at step 23 of 46" in done.stdout
    assert losses(run) == want
