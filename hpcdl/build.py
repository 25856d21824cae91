"""From a configuration to the objects that a run is made of: one line for each thing in a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcdl import compression, consistency, nn, optim
from hpcdl.config import Compression, Config, layers
from hpcdl.errors import UserError
from hpcdl.nn import Layer, Reduce


def build_layer(spec: layers.Layer, reduce: Reduce | None) -> Layer:
    """Return the layer that a table of the configuration describes.

    Args:
        spec: the table.
        reduce: sums a small array over all ranks, for global batch statistics; None for one rank.
    """
    return _LAYERS[type(spec)](spec, reduce)


def build_network(specs: tuple[layers.Layer, ...], reduce: Reduce | None) -> nn.Sequential:
    """Return the layers one after the other."""
    return nn.Sequential([build_layer(s, reduce) for s in specs])


_LAYERS: dict[type[layers.Layer], Callable[[Any, Reduce | None], Layer]] = {
    layers.BatchNorm: lambda s, reduce: nn.BatchNorm(
        s.momentum, s.eps, reduce if s.statistics == "global" else None
    ),
    layers.Conv: lambda s, reduce: nn.Conv2d(s.channels, s.kernel, s.stride, s.padding, s.bias),
    layers.Dense: lambda s, reduce: nn.Dense(s.units, s.bias),
    layers.Flatten: lambda s, reduce: nn.Flatten(),
    layers.GlobalAvgPool: lambda s, reduce: nn.GlobalAvgPool(),
    layers.MaxPool: lambda s, reduce: nn.MaxPool(s.size, s.stride, s.padding),
    layers.ReLU: lambda s, reduce: nn.ReLU(),
    layers.Residual: lambda s, reduce: nn.Residual(
        build_network(s.body, reduce), build_network(s.shortcut, reduce) if s.shortcut else None
    ),
}


def build_schedule(config: Config, steps_per_epoch: int) -> Callable[[int], float]:
    """Return the learning rate as a function of the step."""
    warmup = round(config.schedule.warmup_epochs * steps_per_epoch)
    return _SCHEDULES[config.schedule.name](config, steps_per_epoch, warmup)


_SCHEDULES: dict[str, Callable[[Config, int, int], Callable[[int], float]]] = {
    "constant": lambda c, per, warmup: optim.Constant(c.optimizer.lr, warmup),
    "cosine": lambda c, per, warmup: optim.WarmupCosine(
        # A warm-up that takes the whole run leaves no step for the decay.
        c.optimizer.lr,
        max(c.train.epochs * per, warmup + 1),
        warmup=warmup,
        final_lr=c.schedule.final_lr,
    ),
    "step": lambda c, per, warmup: optim.WarmupStep(
        c.optimizer.lr,
        tuple(m * per for m in c.schedule.milestones),
        c.schedule.gamma,
        warmup=warmup,
    ),
}


def build_optimizer(config: Config, steps_per_epoch: int) -> optim.Optimizer:
    """Return the optimizer, with its schedule."""
    return _OPTIMIZERS[config.optimizer.name](config, build_schedule(config, steps_per_epoch))


_OPTIMIZERS: dict[str, Callable[[Config, Callable[[int], float]], optim.Optimizer]] = {
    "sgd": lambda c, lr: optim.SGD(
        lr, c.optimizer.momentum, c.optimizer.weight_decay, c.optimizer.nesterov
    ),
}


def build_codec(spec: Compression) -> compression.Codec | None:
    """Return the codec; with error feedback where that is asked for and the codec is biased."""
    codec = _CODECS[spec.codec](spec)
    if codec is None or codec.unbiased or not spec.error_feedback:
        return codec
    return compression.ErrorFeedback(codec)


_CODECS: dict[str, Callable[[Compression], compression.Codec | None]] = {
    "none": lambda s: None,
    "qsgd": lambda s: compression.QSGD(s.bits, s.bucket),
    "topk": lambda s: compression.TopK(s.density),
}


def build_consistency(config: Config) -> consistency.Consistency:
    """Return how the ranks are kept together."""
    return _CONSISTENCIES[config.consistency.name](config)


_CONSISTENCIES: dict[str, Callable[[Config], consistency.Consistency]] = {
    "synchronous": lambda c: consistency.Synchronous(
        c.consistency.algorithm, build_codec(c.compression), seed=c.run.seed
    ),
    "local_sgd": lambda c: consistency.LocalSGD(c.consistency.period, c.consistency.algorithm),
}


def array_module(device: str) -> Any:
    """Return numpy for "cpu", cupy for "cuda".

    Raises:
        UserError: there is no cupy, or no GPU.
    """
    if device == "cpu":
        return np
    try:
        import cupy
    except ImportError as error:
        raise UserError(
            f"run.device='cuda': cupy cannot be imported ({error}); pip install 'hpcdl[cuda]', or "
            "use run.device='cpu'"
        ) from error
    if not cupy.cuda.is_available():
        raise UserError("run.device='cuda': there is no GPU here; use run.device='cpu'")
    return cupy
