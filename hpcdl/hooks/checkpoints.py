"""Write checkpoints during training, and find the one to continue from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hpcdl import snapshot
from hpcdl.checkpoint import CheckpointDir, CheckpointError
from hpcdl.errors import UserError
from hpcdl.loop import Hook, Run


class Checkpoints(Hook):
    """Save the run every so many epochs and steps, and at the end; rank 0 writes.

    Args:
        directory: where they are kept.
        every_epochs: 0 for none at the end of epochs.
        every_steps: 0 for none in between.
        keep: how many of the newest are kept.
    """

    def __init__(self, directory: Path, every_epochs: int, every_steps: int, keep: int) -> None:
        self._directory = CheckpointDir(directory, keep)
        self._every_epochs, self._every_steps = every_epochs, every_steps
        self._saved = -1

    def resume(self, run: Run, report: Callable[[CheckpointError], object]) -> bool:
        """Continue from the newest sound checkpoint, if there is one; collective.

        Args:
            run: it gets the saved state.
            report: called on rank 0 about each checkpoint that is broken.

        Returns:
            Whether there was one.

        Raises:
            UserError: the newest sound one is of another network or of a run whose state would
                not mean the same in this one, or the folder cannot be read.
        """
        found, refusal = None, None
        if run.comm.Get_rank() == 0:
            try:
                found = self._directory.latest(report, partial(snapshot.check, run))
            except (CheckpointError, UserError) as error:
                refusal = str(error)
        there, refusal = run.comm.bcast((found is not None, refusal), 0)
        if refusal is not None:
            raise UserError(refusal)
        if not there:
            return False
        _, tensors, attrs = found if found is not None else (None, {}, {})
        snapshot.restore(run, tensors, attrs)
        self._saved = run.step
        return True

    def start(self, run: Run) -> None:
        """Find out whether checkpoints can be written, before the first step; collective.

        Raises:
            UserError: they cannot.
        """
        if run.step >= run.steps or not (self._every_epochs or self._every_steps):
            return
        refusal = None
        if run.comm.Get_rank() == 0:
            try:
                self._directory.prepare(run.step, run.steps)
            except CheckpointError as error:
                refusal = str(error)
        if (refusal := run.comm.bcast(refusal, 0)) is not None:
            raise UserError(refusal)

    def after_step(self, run: Run) -> None:
        """Save, if it is time; the end of an epoch is left to `after_epoch`."""
        within = run.step % run.data.steps_per_epoch != 0
        if within and self._every_steps and run.step % self._every_steps == 0:
            self.save(run)

    def after_epoch(self, run: Run) -> None:
        """Save, if it is time."""
        by_epoch = self._every_epochs and run.epoch % self._every_epochs == 0
        if by_epoch or (self._every_steps and run.step % self._every_steps == 0):
            self.save(run)

    def stopped(self, run: Run) -> None:
        """Save the run where it stops, if that is not done."""
        if run.step != self._saved:
            self.save(run)

    def end(self, run: Run) -> None:
        """Save the final state, if that is not done."""
        if run.step != self._saved and (self._every_epochs or self._every_steps):
            self.save(run)

    def save(self, run: Run) -> None:
        """Save the run as it is now; collective.

        Raises:
            DivergedError: the weights are not finite.
            CheckpointError: the file cannot be written; earlier ones are as they were.
        """
        tensors, attrs = snapshot.capture(run)
        if run.comm.Get_rank() == 0:
            self._directory.save(run.step, tensors, attrs)
        self._saved = run.step
