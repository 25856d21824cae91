"""The sections of a configuration and their keys, with defaults, help and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcdl.config.layers import Layer
from hpcdl.config.option import INCREASING, NOT_EMPTY, above, at_least, between, count, option

__all__ = [
    "Checkpoint",
    "Compression",
    "Config",
    "Consistency",
    "Data",
    "Grid",
    "Model",
    "Optimizer",
    "Run",
    "Schedule",
    "Train",
]


@dataclass(frozen=True)
class Run:
    """Where a run leaves its files, what it computes with, and how it shows progress."""

    dir: str = option("runs/run", "folder for metrics, checkpoints and the report", NOT_EMPTY)
    data_dir: str = option("", 'folder for built-in data, made on first use; "": run.dir')
    seed: int = option(
        0, "random seed of the initial weights and the shuffling", count(0, 2**63 - 1)
    )
    dtype: Literal["float32", "float64"] = option("float32", "precision of weights and activations")
    device: Literal["cpu", "cuda"] = option("cpu", "where the arrays live")
    progress: Literal["auto", "live", "plain", "none"] = option(
        "auto", "auto: one live line on a terminal, plain lines elsewhere"
    )
    log_every: int = option(10, "steps between two progress lines", count(1))


@dataclass(frozen=True)
class Data:
    """What to train on, and what to test on."""

    file: str = option("", 'an HDF5 file; "": the built-in data set')
    builtin: Literal["digits", ""] = option("digits", "scikit-learn's 8x8 digits, 10 classes")
    input: str = option(
        "train/input", "data set in the file: samples first, channels last", NOT_EMPTY
    )
    target: str = option("train/target", "data set with the class of each sample", NOT_EMPTY)
    test_input: str = option("test/input", 'the same for the test; "": no test')
    test_target: str = option("test/target", 'the same for the test; "": no test')


@dataclass(frozen=True)
class Model:
    """The network."""

    layers: tuple[Layer, ...] = option((), "the layers, first to last", NOT_EMPTY)


@dataclass(frozen=True)
class Train:
    """How long to train, and on how many samples a step."""

    epochs: int = option(10, "passes over the training data", count(1))
    batch: int = option(64, "samples a step, of all ranks together", count(1))
    drop_last: bool = option(False, "leave out the last batch of an epoch if it is short")


@dataclass(frozen=True)
class Optimizer:
    """The rule that turns gradients into new weights."""

    name: Literal["sgd"] = option("sgd", "stochastic gradient descent")
    lr: float = option(0.1, "learning rate, after the warm-up", above(0))
    momentum: float = option(
        0.9, "share of the last update in the next", between(0, 1, open_high=True)
    )
    weight_decay: float = option(0.0, "times the weights, added to the gradient", at_least(0))
    nesterov: bool = option(False, "look ahead along the momentum; needs momentum > 0")


@dataclass(frozen=True)
class Schedule:
    """The course of the learning rate. It rises linearly from 0 during the warm-up."""

    name: Literal["constant", "cosine", "step"] = option("cosine", "what follows the warm-up")
    warmup_epochs: float = option(0.0, "length of the warm-up; at most train.epochs", at_least(0))
    final_lr: float = option(0.0, "cosine: where the learning rate ends", at_least(0))
    milestones: tuple[int, ...] = option(
        (), "step: epochs at which it is multiplied by gamma", INCREASING
    )
    gamma: float = option(0.1, "step: the factor", between(0, 1, open_low=True))


@dataclass(frozen=True)
class Consistency:
    """How far the ranks' weights may differ, and how they are brought together."""

    name: Literal["synchronous", "local_sgd"] = option(
        "synchronous", "synchronous: one gradient for all; local_sgd: average the weights"
    )
    period: int = option(1, "local_sgd: steps between two averages", count(1))
    algorithm: Literal["auto", "ring", "tree", "recursive_doubling", "rabenseifner"] = option(
        "auto", "allreduce to use"
    )


@dataclass(frozen=True)
class Compression:
    """What is done to gradients before they travel."""

    codec: Literal["none", "qsgd", "topk"] = option(
        "none", "qsgd: few bits a value; topk: only the largest values"
    )
    bits: int = option(4, "qsgd: bits a value", count(2, 8))
    bucket: int = option(512, "qsgd: values that share one scale", count(1))
    density: float = option(0.01, "topk: share of the values sent", between(0, 1, open_low=True))
    error_feedback: bool = option(True, "add what was left out to the next gradient")


@dataclass(frozen=True)
class Grid:
    """The arrangement of the ranks. Their number is data x height."""

    data: int = option(0, "parts of each batch; 0: as many as there are ranks left", count(0))
    height: int = option(1, "parts of each image, along its height", count(1))


@dataclass(frozen=True)
class Checkpoint:
    """When to write checkpoints, and how many to keep."""

    every_epochs: int = option(1, "0: not at the end of epochs", count(0))
    every_steps: int = option(0, "0: not between", count(0))
    keep: int = option(3, "the newest that are kept", count(1))


@dataclass(frozen=True)
class Config:
    """All of a training run: one dataclass for each section of the file.

    Only ``load`` checks values; a ``Config`` built in Python is taken as it is.
    """

    run: Run = Run()
    data: Data = Data()
    model: Model = Model()
    train: Train = Train()
    optimizer: Optimizer = Optimizer()
    schedule: Schedule = Schedule()
    consistency: Consistency = Consistency()
    compression: Compression = Compression()
    grid: Grid = Grid()
    checkpoint: Checkpoint = Checkpoint()
