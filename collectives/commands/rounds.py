"""How far a simulation is: a line on the terminal, written anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TextIO

from collectives.registry import Algorithm

_AFTER, _EVERY = 1.0, 0.2  # seconds: what is shorter needs no line; how often it is written
_COUNTING = 0.5  # seconds that may go by until all rounds are counted
_ANEW = "\r\x1b[K"


def rounds_of(algorithm: Algorithm, size: int, limit: float = _COUNTING) -> int | None:
    """Return the number of rounds; None where to count them takes more than ``limit`` seconds."""
    end = time.perf_counter() + limit
    count = 0
    for _ in algorithm.generate(0, size):
        count += 1
        if count % 256 == 0 and time.perf_counter() > end:
            return None
    return count


class RoundsShown:
    """Shows the rounds that have been simulated, once it lasts.

    Args:
        out: a terminal.
        rounds: of one run; None: not known.
        runs: so many come one after the other.
        now: returns the time in seconds.
    """

    def __init__(
        self,
        out: TextIO,
        rounds: int | None,
        runs: int = 1,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._out, self._now = out, now
        self._all = None if rounds is None else rounds * runs
        self._done = 0
        self._begin = now()
        self._next = self._begin + _AFTER
        self._shown = False

    def __call__(self) -> None:
        """Count a round."""
        self._done += 1
        now = self._now()
        if now < self._next:
            return
        self._next = now + _EVERY
        passed = now - self._begin
        text = f"round {self._done}"
        if self._all is None:
            text += f", {timedelta(seconds=round(passed))} so far"
        else:
            left = passed * (self._all - self._done) / self._done
            text += f" of {self._all}, about {timedelta(seconds=round(left))} left"
        self._write(_ANEW + text)
        self._shown = True

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write(_ANEW)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
