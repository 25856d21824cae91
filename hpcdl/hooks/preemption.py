"""Stop in good order when the batch system says that the time is up."""

from __future__ import annotations

import signal
from types import FrameType

import numpy as np

from collectives import MAX, allreduce
from hpcdl.loop import Hook, Run


class Preemption(Hook):
    """On SIGUSR1, at any rank, end the run after the step; `Checkpoints` then saves it.

    The signal may reach ranks at different steps, or only some of them; every few steps they agree.
    Slurm sends it a while before the time limit (``--signal``); the scripts of `jobs` pass it on.

    Args:
        every: steps between two agreements, each an allreduce of one number.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._asked = False

    def start(self, run: Run) -> None:
        """Begin to listen."""
        signal.signal(signal.SIGUSR1, self._ask)

    def after_step(self, run: Run) -> None:
        """Agree, and ask to stop if any rank was asked to."""
        if run.step % self._every or run.step == run.steps:
            return
        asked = allreduce(np.array([self._asked], np.int32), op=MAX, comm=run.comm)
        if asked[0]:
            run.stop = (
                f"stopped by SIGUSR1 after step {run.step} of {run.steps}; a checkpoint was "
                "written, and --resume goes on from it"
            )

    def end(self, run: Run) -> None:
        """Stop listening."""
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
