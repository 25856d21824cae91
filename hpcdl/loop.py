"""The training loop: one for every decomposition, compression, optimizer and consistency."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI

from collectives import Traffic, bcast
from hpcdl.batches import Batches
from hpcdl.consistency import Consistency
from hpcdl.errors import DivergedError, StoppedError
from hpcdl.model import Model
from hpcdl.nn import softmax_cross_entropy
from hpcdl.optim import Optimizer


@dataclass
class Run:
    """All of a training run that changes; hooks read it, checkpoints save it.

    Attributes:
        model: network, parameters and gradients.
        data: the training batches.
        optimizer: the update rule.
        consistency: how the ranks are kept together.
        comm: all ranks of the run.
        steps: how many steps there are in all.
        seed: of everything random.
        step: steps done.
        stop: why to stop after this step, for a hook to set, on all ranks at the same step; or
            empty.
        optimizer_state: flat vectors, such as the momentum.
        consistency_state: plans and residuals.
        tally: this rank's shares of the epoch so far: loss sum, right answers, samples.
        traffic: what this rank sent for gradients and weights.
        layer_traffic: what it sent inside layers (batch statistics, halos).
        seconds: time in earlier runs that this one continues.
    """

    model: Model
    data: Batches
    optimizer: Optimizer
    consistency: Consistency
    comm: MPI.Comm
    steps: int
    seed: int = 0
    step: int = 0
    stop: str = ""
    optimizer_state: dict[str, Any] = field(default_factory=dict)
    consistency_state: Any = None
    tally: Any = field(default_factory=lambda: np.zeros(3))
    traffic: Traffic = field(default_factory=Traffic)
    layer_traffic: Traffic = field(default_factory=Traffic)
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    @property
    def epoch(self) -> int:
        """Epochs that are finished."""
        return self.step // self.data.steps_per_epoch

    def elapsed(self) -> float:
        """Return the seconds of training so far, earlier runs included."""
        return self.seconds + time.perf_counter() - self.began

    def unite(self) -> None:
        """Make weights and state the same on all ranks, as evaluation and checkpoints need them."""
        self.consistency.flush(self.model.parameters, self.consistency_state)
        bcast(self.model.packed.buffers, comm=self.comm, traffic=self.layer_traffic)


class Hook:
    """Something to do during training; all ranks call all hooks at the same steps.

    A hook overrides what it needs; the rest does nothing.
    """

    def start(self, run: Run) -> None:
        """Do something before the first step."""

    def after_step(self, run: Run) -> None:
        """Do something after each step."""

    def after_epoch(self, run: Run) -> None:
        """Do something after each epoch; weights and state are the same on all ranks."""

    def stopped(self, run: Run) -> None:
        """Do something where ``run.stop`` ends the run early, after the step and its epoch."""

    def end(self, run: Run) -> None:
        """Do something after the last step."""


def prepare(
    model: Model,
    data: Batches,
    optimizer: Optimizer,
    consistency: Consistency,
    comm: MPI.Comm,
    *,
    steps: int,
    seed: int = 0,
    layer_traffic: Traffic | None = None,
) -> Run:
    """Set up a run at step 0: optimizer state, and the plans that are bound to the flat vectors."""
    run = Run(model, data, optimizer, consistency, comm, steps, seed)
    run.layer_traffic = layer_traffic or run.layer_traffic
    run.optimizer_state = optimizer.init(model.parameters)
    run.consistency_state = consistency.init(
        model.parameters, model.grads, comm, traffic=run.traffic
    )
    return run


def train(
    model: Model,
    data: Batches,
    optimizer: Optimizer,
    consistency: Consistency,
    comm: MPI.Comm,
    *,
    steps: int,
    seed: int = 0,
    hooks: Sequence[Hook] = (),
) -> Run:
    """Train a model; collective over ``comm``.

    Args:
        model: network and parameters, the same on all ranks.
        data: this rank's parts of the batches.
        optimizer: the update rule.
        consistency: how the ranks are kept together, such as `hpcdl.consistency.Synchronous`.
        comm: all ranks of the run.
        steps: how many batches to train on.
        seed: of everything random but the weights and the order of the samples.
        hooks: what to do beside the training, such as `hpcdl.hooks.Progress`.

    Returns:
        The run as it ended; its model is the one that was given.

    Raises:
        DivergedError: the loss is no longer finite.
    """
    run = prepare(model, data, optimizer, consistency, comm, steps=steps, seed=seed)
    advance(run, hooks)
    return run


@np.errstate(over="ignore", invalid="ignore")  # told as DivergedError, not as numpy's warnings
def advance(run: Run, hooks: Sequence[Hook] = ()) -> None:
    """Train from ``run.step`` to ``run.steps``, and free the plans.

    Each rank's gradient is its share of the global one: the gradient of the sum over its samples,
    divided by the size of the global batch. So the sum over ranks is the global mean,
    sum(n_r g_r) / sum(n_r), also where a batch is uneven (Goyal et al. 2017).

    Raises:
        DivergedError: the loss is no longer finite.
        StoppedError: a hook asked to stop.
    """
    model, grads = run.model, run.model.grads
    for hook in hooks:
        hook.start(run)
    while run.step < run.steps:
        batch = run.data.train(run.step)
        rng = np.random.default_rng([run.seed, 1, run.step, run.comm.Get_rank()])
        logits, ctx = model.forward(batch.x, train=True, rng=rng)
        loss, correct, dlogits = softmax_cross_entropy(logits, batch.y)
        if not math.isfinite(loss):
            raise DivergedError(
                f"the loss of step {run.step + 1} is {loss}: training has diverged. A smaller "
                "optimizer.lr, a longer schedule.warmup_epochs or float64 may help"
            )
        dlogits *= 1.0 / (batch.total * model.replicas)
        model.backward(ctx, dlogits)
        run.consistency.reduce(grads, run.consistency_state, run.step)
        run.optimizer_state = run.optimizer.update(
            model.parameters, grads, run.optimizer_state, run.step
        )
        run.consistency.mix(model.parameters, run.consistency_state, run.step)
        run.tally += np.array([loss, correct, len(batch.y)]) / model.replicas
        run.step += 1
        for hook in hooks:
            hook.after_step(run)
        if run.step % run.data.steps_per_epoch == 0 or run.step == run.steps:
            run.unite()
        if run.step % run.data.steps_per_epoch == 0:
            for hook in hooks:
                hook.after_epoch(run)
            run.tally[:] = 0
        if run.stop:
            for hook in hooks:
                hook.stopped(run)
            raise StoppedError(run.stop)
    for hook in hooks:
        hook.end(run)
    run.consistency.close(run.consistency_state)
