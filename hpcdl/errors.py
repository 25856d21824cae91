"""Errors that are messages to the user: printed as one line, without a traceback."""

from __future__ import annotations


class UserError(RuntimeError):
    """What the user asked for cannot be done. The message says why, and what would work."""

    plain = True


class DivergedError(UserError):
    """The loss or the weights are no longer finite numbers."""


class StoppedError(UserError):
    """The run was asked to stop, and did so in good order; ``--resume`` goes on."""
