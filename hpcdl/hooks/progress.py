"""Progress as people expect it: a live line on a terminal, plain lines in a batch log."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, TextIO

import numpy as np

from collectives import allreduce
from hpcdl.loop import Hook, Run


class Progress(Hook):
    """Show how training goes on; rank 0 writes.

    Rate, share of communication and the time left are those of the steps since the line before. The
    first step, which compiles, counts only where nothing else is known yet.

    Args:
        every: steps between two lines (or two refreshments of the live line).
        live: rewrite one line in place.
        stream: where to write; standard output by default.
        columns: width of the terminal; 0: as the system says.
    """

    def __init__(
        self,
        every: int = 10,
        live: bool = False,
        stream: TextIO | None = None,
        columns: int = 0,
    ) -> None:
        self._every, self._live = every, live
        self._stream = stream or sys.stdout
        self._columns = columns
        self._since = (0.0, 0, 0.0)
        self._first = 0
        self._width = 0

    def start(self, run: Run) -> None:
        """Remember when and where the run began."""
        self._first = run.step + 1
        self._since = self._now(run)

    def after_step(self, run: Run) -> None:
        """Write a line every few steps."""
        in_epoch = run.step % run.data.steps_per_epoch
        shown = in_epoch != 0 and run.step % self._every == 0
        before = self._since
        if shown or run.step == self._first:
            self._since = self._now(run)
        if not shown:
            return
        mine = np.array([*run.tally, self._since[2] - before[2]])
        loss, correct, samples, communication = allreduce(mine, comm=run.comm).tolist()
        if run.comm.Get_rank() != 0:
            return
        seconds = self._since[0] - before[0]
        rate = (run.step - before[1]) / max(seconds, 1e-9)
        share = communication / run.comm.Get_size() / max(seconds, 1e-9)
        epochs = -(-run.steps // run.data.steps_per_epoch)
        text = (
            f"epoch {run.epoch + 1}/{epochs} step {run.step}/{run.steps} "
            f"loss {loss / max(samples, 1):.4f} acc {100 * correct / max(samples, 1):.2f} % "
            f"{rate * samples / max(in_epoch, 1):.0f} samples/s "
            f"comm {100 * share:.0f} % left {clock((run.steps - run.step) / max(rate, 1e-9))}"
        )
        self._write(text, keep=not self._live)

    def _now(self, run: Run) -> tuple[float, int, float]:
        """Return the time in seconds, the steps done, and this rank's seconds of communication."""
        communication = run.traffic.seconds + run.layer_traffic.seconds
        return time.perf_counter(), run.step, communication

    def epoch(self, line: dict[str, Any]) -> None:
        """Write the line of an epoch: a listener of `hpcdl.hooks.Metrics`."""
        test = ""
        if line["test_accuracy"] is not None:
            test = f" | test loss {line['test_loss']:.4f} acc {100 * line['test_accuracy']:.2f} %"
        text = (
            f"epoch {line['epoch']} done, {line['time_s']:.1f} s | train loss "
            f"{line['train_loss']:.4f} acc {100 * line['train_accuracy']:.2f} %{test} | "
            f"{line['samples_per_s']:.0f} samples/s, comm {100 * line['comm_fraction']:.0f} %, "
            f"{line['wire_bytes_per_step'] / 1e3:.1f} kB/step"
        )
        self._write(text, keep=True)

    def _write(self, text: str, *, keep: bool) -> None:
        if self._live:
            columns = self._columns or shutil.get_terminal_size().columns
            shown = text if keep else text[: max(columns - 1, 0)]
            # Blanks wipe what is left of the live line that stood here.
            self._stream.write("\r" + shown.ljust(self._width) + ("\n" if keep else ""))
            self._width = 0 if keep else len(shown)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()


def clock(seconds: float) -> str:
    """Return a duration as h:mm:ss or m:ss."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"
