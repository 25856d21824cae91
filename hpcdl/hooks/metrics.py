"""A line of metrics for each epoch: measured on all ranks, written by rank 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from collectives import Traffic, allreduce
from hpcdl import metricsfile
from hpcdl.batches import Batches
from hpcdl.evaluate import evaluate, means
from hpcdl.loop import Hook, Run
from hpcdl.rundir import using


class Metrics(Hook):
    """Evaluate after each epoch and append a line to a file of JSON lines.

    The keys: ``epoch``, ``step``, ``time_s`` (seconds of training so far), ``train_loss`` and
    ``test_loss`` (nats), ``test_accuracy`` and ``train_accuracy`` (0..1), ``samples_per_s``
    (training only, without evaluation), ``comm_fraction`` (share of the training time inside
    communication, mean over ranks), ``wire_bytes_per_step`` (bytes sent by a rank in a step, mean
    over ranks), and of these ``gradient_bytes_per_step`` for gradients or weights. A value that is
    not finite is written as null.

    Args:
        path: the file, or None to write none. Lines beyond the step where a run starts are
            dropped: it continues there.
        test: the samples to evaluate on, or None: the test values are then null.
        listeners: called on rank 0 with each line.
        tell: called on rank 0 with what is worth knowing about the file that was there.
    """

    def __init__(
        self,
        path: Path | None,
        test: Batches | None,
        listeners: Sequence[Callable[[dict[str, Any]], None]] = (),
        tell: Callable[[str], object] = print,
    ) -> None:
        self._path, self._test = path, test
        self._listeners, self._tell = listeners, tell
        self._since = (0.0, 0, Traffic(), Traffic())

    def start(self, run: Run) -> None:
        """Drop lines of later epochs than the run starts at, and those that are none.

        Raises:
            UserError: the file cannot be read or written.
        """
        if self._path is not None and run.comm.Get_rank() == 0:
            with using(self._path, "read"):
                there = self._path.exists()
                text = metricsfile.read_text(self._path) if there else ""
            lines, bad = metricsfile.parse_lines(text)
            sound = [line for line in lines if metricsfile.is_number(line.get("step"))]
            with using(self._path):
                metricsfile.write(self._path, [ln for ln in sound if ln["step"] <= run.step])
            if bad := bad + len(lines) - len(sound):
                self._tell(f"{self._path}: {bad} line{'s' * (bad > 1)} could not be read: dropped")
        self._mark(run)

    def after_epoch(self, run: Run) -> None:
        """Measure, evaluate, write.

        Raises:
            UserError: the file cannot be written.
        """
        elapsed = run.elapsed()
        began, step, traffic, layer_traffic = self._since
        seconds, steps = max(elapsed - began, 1e-9), max(run.step - step, 1)
        # A run that was continued within an epoch has trained on a part of it only.
        samples = run.data.samples * steps / run.data.steps_per_epoch
        grads, layers = run.traffic.since(traffic), run.layer_traffic.since(layer_traffic)
        train_loss, train_accuracy = means(run.tally, run.comm)
        test_loss = test_accuracy = None
        if self._test is not None:
            test_loss, test_accuracy = evaluate(run.model, self._test, run.comm)
        mine = np.array([grads.seconds + layers.seconds, grads.bytes, layers.bytes], float)
        mean = allreduce(mine, comm=run.comm) / run.comm.Get_size()
        line = {
            "epoch": run.epoch,
            "step": run.step,
            "time_s": elapsed,
            "train_loss": train_loss,
            "train_accuracy": train_accuracy,
            "test_loss": test_loss,
            "test_accuracy": test_accuracy,
            "samples_per_s": samples / seconds,
            "comm_fraction": float(mean[0]) / seconds,
            "wire_bytes_per_step": float(mean[1] + mean[2]) / steps,
            "gradient_bytes_per_step": float(mean[1]) / steps,
        }
        if run.comm.Get_rank() == 0:
            if self._path is not None:
                with using(self._path):
                    metricsfile.append(self._path, line)
            for listener in self._listeners:
                listener(line)
        self._mark(run)

    def _mark(self, run: Run) -> None:
        self._since = (run.elapsed(), run.step, run.traffic.copy(), run.layer_traffic.copy())
