"""One training run, from a configuration to the last checkpoint."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mpi4py import MPI

from collectives import Traffic
from hpcdl.batches import Batches
from hpcdl.build import array_module, build_consistency, build_network, build_optimizer
from hpcdl.config import Config, to_toml
from hpcdl.data import HDF5Dataset, ensure_digits
from hpcdl.errors import UserError
from hpcdl.grid import ProcessGrid
from hpcdl.hooks import Checkpoints, Metrics, Preemption, Progress
from hpcdl.loop import Hook, Run, advance, prepare
from hpcdl.model import Model
from hpcdl.nn import Layer
from hpcdl.parallel import SumOver, spatial
from hpcdl.rundir import set_aside

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
RECORD = "config.toml"


def run(
    config: Config,
    comm: MPI.Intracomm,
    *,
    resume: bool = False,
    live: bool = False,
    hooks: Sequence[Hook] = (),
) -> Run:
    """Train as a configuration says; collective over ``comm``.

    Args:
        config: what to do.
        comm: all ranks of the run.
        resume: continue from the newest sound checkpoint in ``run.dir``, if there is one.
        live: where ``run.progress`` is "auto", rewrite one line in place.
        hooks: more to do during training.

    Returns:
        The run as it ended.

    Raises:
        UserError: the configuration does not fit the ranks, the data or this machine.
        DataError: the data file is missing, broken, or not what the configuration says.
        CheckpointError: a checkpoint could not be written.
        DivergedError: the loss or the weights are no longer finite.
    """
    with ExitStack() as stack:
        state, own = _prepare(config, comm, resume, live, stack)
        advance(state, [*own, *hooks])
        return state


def _prepare(
    config: Config, comm: MPI.Intracomm, resume: bool, live: bool, stack: ExitStack
) -> tuple[Run, list[Hook]]:
    xp = array_module(config.run.device)
    try:
        grid = stack.enter_context(
            ProcessGrid(comm, data=config.grid.data, height=config.grid.height)
        )
    except ValueError as error:
        raise UserError(f"[grid] {error}") from error
    directory = Path(config.run.dir)
    file = _data_file(config, comm)
    layer_traffic = Traffic()
    train_samples = stack.enter_context(HDF5Dataset(file, config.data.input, config.data.target))
    network, rows, replicas = _network(config, grid, train_samples, layer_traffic, stack)
    shape = train_samples.sample_shape
    try:
        model = Model.create(
            network,
            shape,
            seed=config.run.seed,
            dtype=config.run.dtype,
            xp=xp,
            replicas=replicas,
        )
    except ValueError as error:
        raise UserError(f"[model] {error} (samples of {file} have shape {shape})") from error
    if model.output_shape != (train_samples.classes,):
        raise UserError(
            f"[model] the last layer gives {model.output_shape}, but the targets of {file} need "
            f"({train_samples.classes},): one output for each class"
        )
    settings: dict[str, Any] = {
        "part": grid.index("data"),
        "parts": grid.size("data"),
        "rows": rows,
        "dtype": config.run.dtype,
        "xp": xp,
    }
    try:
        data = Batches(
            train_samples,
            config.train.batch,
            seed=config.run.seed,
            drop_last=config.train.drop_last,
            **settings,
        )
    except ValueError as error:
        raise UserError(f"[train] {error}") from error
    test = None
    if config.data.test_input:
        test_samples = stack.enter_context(
            HDF5Dataset(file, config.data.test_input, config.data.test_target)
        )
        if test_samples.sample_shape != shape or test_samples.classes > train_samples.classes:
            raise UserError(
                f"{file}: test samples have shape {test_samples.sample_shape} and "
                f"{test_samples.classes} classes, training samples {shape} and "
                f"{train_samples.classes}"
            )
        test = Batches(test_samples, config.train.batch, **settings)
    state = prepare(
        model,
        data,
        build_optimizer(config, data.steps_per_epoch),
        build_consistency(config),
        grid.comm("data", "height"),
        steps=config.train.epochs * data.steps_per_epoch,
        seed=config.run.seed,
        layer_traffic=layer_traffic,
    )
    hooks = _hooks(config, state, directory, test, resume, live)
    return state, hooks


def _network(
    config: Config,
    grid: ProcessGrid,
    samples: HDF5Dataset,
    traffic: Traffic,
    stack: ExitStack,
) -> tuple[Layer, slice | None, int]:
    """Return the network of this rank, its rows of each image, and the replicas of an output."""
    reduce = None
    if grid.size("data") > 1:
        reduce = SumOver(grid.comm("data"), traffic=traffic)
        stack.callback(reduce.close)
    network: Layer = build_network(config.model.layers, reduce)
    if grid.size("height") == 1:
        return network, None, 1
    try:
        split = spatial(network, grid.comm("height"), samples.sample_shape, traffic=traffic)
    except (TypeError, ValueError) as error:
        raise UserError(f"[grid] height={grid.size('height')}: {error}") from error
    stack.enter_context(split)
    return split, split.rows, split.replicas


def _data_file(config: Config, comm: MPI.Intracomm) -> Path:
    """Return the data file; the built-in one is made by rank 0 where it is not there."""
    if config.data.file:
        return Path(config.data.file)
    folder = Path(config.run.data_dir or config.run.dir)
    path = ensure_digits(folder) if comm.Get_rank() == 0 else None
    return Path(comm.bcast(path, 0))


def _hooks(
    config: Config,
    state: Run,
    directory: Path,
    test: Batches | None,
    resume: bool,
    live: bool,
) -> list[Hook]:
    first = state.comm.Get_rank() == 0
    if first:
        if not resume:
            moved = set_aside(
                directory, [METRICS, CHECKPOINTS, RECORD, "report.png", "report.html"]
            )
            if moved is not None:
                _say(f"{directory} has an earlier run: moved to {moved} (--resume continues it)")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / RECORD).write_text(to_toml(config))
    state.comm.Barrier()
    kept = config.checkpoint
    checkpoints = Checkpoints(
        directory / CHECKPOINTS, kept.every_epochs, kept.every_steps, kept.keep
    )
    if resume:
        there = checkpoints.resume(state, lambda e: _say(f"broken checkpoint: {e}"))
        if first:
            at = (
                f"at step {state.step} of {state.steps}" if there else "at the start: no checkpoint"
            )
            _say(f"resume {at}")
    hooks: list[Hook] = []
    listeners = []
    if config.run.progress != "none":
        shown = live if config.run.progress == "auto" else config.run.progress == "live"
        progress = Progress(config.run.log_every, shown)
        hooks.append(progress)
        listeners.append(progress.epoch)
        if first:
            _say(_banner(config, state))
    metrics = Metrics(directory / METRICS, test, listeners)
    return [*hooks, metrics, checkpoints, Preemption(checkpoints, config.run.log_every)]


def _banner(config: Config, state: Run) -> str:
    library = MPI.Get_library_version().split("\n")[0].split(",")[0].strip()
    size = state.comm.Get_size()
    grid = f"data {size // config.grid.height}"
    if config.grid.height > 1:
        grid += f" x height {config.grid.height}"
    return (
        f"hpcdl: {size} rank{'s' * (size > 1)} ({grid}), {library}, "
        f"{state.model.parameters.size} parameters in {config.run.dtype}, "
        f"{state.data.samples} samples, {state.data.steps_per_epoch} steps per epoch"
    )


def _say(text: str) -> None:
    print(text, flush=True)
    sys.stdout.flush()
