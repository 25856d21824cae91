"""One training run, from a configuration to the last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mpi4py import MPI

from collectives import Traffic
from hpcdl.batches import Batches
from hpcdl.build import array_module, build_consistency, build_network, build_optimizer
from hpcdl.config import Config, changed_settings, to_toml
from hpcdl.data import HDF5Dataset, ensure_digits
from hpcdl.errors import UserError
from hpcdl.grid import ProcessGrid
from hpcdl.hooks import Checkpoints, Metrics, Preemption, Progress
from hpcdl.loop import Hook, Run, advance, prepare
from hpcdl.model import Model
from hpcdl.nn import Layer
from hpcdl.parallel import SumOver, spatial
from hpcdl.rundir import reserved, set_aside, using

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
RECORD = "config.toml"


def run(
    config: Config,
    comm: MPI.Intracomm,
    *,
    resume: bool = False,
    live: bool = False,
    columns: int = 0,
    hooks: Sequence[Hook] = (),
) -> Run:
    """Train as a configuration says; collective over ``comm``.

    Args:
        config: what to do.
        comm: all ranks of the run.
        resume: continue from the newest sound checkpoint in ``run.dir``, if there is one.
        live: where ``run.progress`` is "auto", rewrite one line in place.
        columns: width of the terminal; 0: as the system says.
        hooks: more to do during training.

    Returns:
        The run as it ended.

    Raises:
        UserError: the configuration does not fit the ranks, the data or this machine, another run
            uses ``run.dir``, or a file in it cannot be written.
        DataError: the data file is missing, broken, or not what the configuration says.
        CheckpointError: a checkpoint could not be written.
        DivergedError: the loss or the weights are no longer finite.
    """
    with ExitStack() as stack:
        with _told_as("[grid] "):
            grid = ProcessGrid(comm, data=config.grid.data, height=config.grid.height)
        stack.enter_context(grid)
        file = _data_file(config, comm)
        samples = stack.enter_context(HDF5Dataset(file, config.data.input, config.data.target))
        layer_traffic = Traffic()
        model, rows = _model(config, grid, samples, layer_traffic, stack)
        data, test = _batches(config, grid, samples, model, rows, stack)
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
        if comm.Get_rank() == 0:
            stack.enter_context(reserved(Path(config.run.dir)))
        show = None if config.run.progress == "none" else _progress(config, live, columns)
        advance(state, [*_hooks(config, state, test, resume, show), *hooks])
        return state


@contextmanager
def _told_as(prefix: str, suffix: str = "") -> Iterator[None]:
    """Turn what a library part refuses into a message about the configuration."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UserError(f"{prefix}{error}{suffix}") from error


def _model(
    config: Config,
    grid: ProcessGrid,
    samples: HDF5Dataset,
    traffic: Traffic,
    stack: ExitStack,
) -> tuple[Model, slice | None]:
    """Return the model of this rank, and its rows of each image where images are split."""
    xp = array_module(config.run.device)
    shape = samples.sample_shape
    reduce = None
    if grid.size("data") > 1:
        reduce = SumOver(grid.comm("data"), traffic=traffic)
        stack.callback(reduce.close)
    network: Layer = build_network(config.model.layers, reduce)
    rows, replicas = None, 1
    if grid.size("height") > 1:
        with _told_as(f"[grid] height={grid.size('height')}: "):
            split = spatial(network, grid.comm("height"), shape, traffic=traffic)
        network, rows, replicas = stack.enter_context(split), split.rows, split.replicas
    with _told_as("[model] ", f" (samples of {samples.path} have shape {shape})"):
        model = Model.create(
            network,
            shape,
            seed=config.run.seed,
            dtype=config.run.dtype,
            xp=xp,
            replicas=replicas,
        )
    # The labels of a file need not include the last classes.
    if len(model.output_shape) != 1 or model.output_shape[0] < samples.classes:
        raise UserError(
            f"[model] the last layer gives {model.output_shape}, but the targets of "
            f"{samples.path} need at least ({samples.classes},): one output for each class"
        )
    return model, rows


def _batches(
    config: Config,
    grid: ProcessGrid,
    samples: HDF5Dataset,
    model: Model,
    rows: slice | None,
    stack: ExitStack,
) -> tuple[Batches, Batches | None]:
    """Return the batches to train on, and those to test on where there are any."""

    def batches(source: HDF5Dataset, drop_last: bool) -> Batches:
        with _told_as("[train] "):
            return Batches(
                source,
                config.train.batch,
                seed=config.run.seed,
                part=grid.index("data"),
                parts=grid.size("data"),
                rows=rows,
                dtype=config.run.dtype,
                xp=array_module(config.run.device),
                drop_last=drop_last,
            )

    data = batches(samples, config.train.drop_last)
    if not config.data.test_input:
        return data, None
    test = stack.enter_context(
        HDF5Dataset(samples.path, config.data.test_input, config.data.test_target)
    )
    outputs = model.output_shape[0]
    if test.sample_shape != samples.sample_shape or test.classes > outputs:
        raise UserError(
            f"{samples.path}: test samples have shape {test.sample_shape} and {test.classes} "
            f"classes, training samples {samples.sample_shape}, and the network {outputs} outputs"
        )
    return data, batches(test, False)


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
    test: Batches | None,
    resume: bool,
    progress: Progress | None,
) -> list[Hook]:
    directory = Path(config.run.dir)
    first = state.comm.Get_rank() == 0
    if first:
        if not resume:
            moved = set_aside(
                directory, [METRICS, CHECKPOINTS, RECORD, "report.png", "report.html"]
            )
            if moved is not None:
                _say(f"{directory} has an earlier run: moved to {moved} (--resume continues it)")
        elif changes := changed_settings(directory / RECORD, config):
            _say(f"resume with other settings: {', '.join(changes)}")
        with using(directory / RECORD):
            (directory / RECORD).write_text(to_toml(config), encoding="utf-8")
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
    if progress is not None:
        hooks.append(progress)
        listeners.append(progress.epoch)
        if first:
            _say(_banner(config, state))
    metrics = Metrics(directory / METRICS, test, listeners, _say)
    return [*hooks, metrics, checkpoints, Preemption(config.run.log_every)]


def _progress(config: Config, live: bool, columns: int) -> Progress:
    shown = live if config.run.progress == "auto" else config.run.progress == "live"
    return Progress(config.run.log_every, shown, columns=columns)


def _banner(config: Config, state: Run) -> str:
    vendor, version = MPI.get_vendor()
    size = state.comm.Get_size()
    grid = f"data {size // config.grid.height}"
    if config.grid.height > 1:
        grid += f" x height {config.grid.height}"
    return (
        f"hpcdl: {size} rank{'s' * (size > 1)} ({grid}), "
        f"{vendor} {'.'.join(map(str, version))}, "
        f"{state.model.parameters.size} parameters in {config.run.dtype}, "
        f"{state.data.samples} samples, {state.data.steps_per_epoch} "
        f"step{'s' * (state.data.steps_per_epoch > 1)} per epoch"
    )


def _say(text: str) -> None:
    print(text, flush=True)
