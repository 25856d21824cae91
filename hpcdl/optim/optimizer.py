"""What an optimizer is."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from hpcdl.array import Array

State: TypeAlias = dict[str, Array]
"""Flat vectors by name, each as long as the parameters."""


class Optimizer(Protocol):
    """State in, state out: an optimizer keeps none of its own, so a checkpoint sees all of it."""

    def init(self, params: Array) -> State:
        """The state before the first step.

        Args:
            params: flat vector of the trained values.

        Returns:
            New arrays of the shape, dtype and kind of `params`.
        """
        ...

    def update(self, params: Array, grads: Array, state: State, step: int) -> State:
        """Take one step, in place.

        Args:
            params: flat vector; overwritten with the new values.
            grads: flat vector, the gradient; left as it is.
            state: as `init` or the step before returned it; its arrays are overwritten.
            step: number of the step, from 0, which schedules look at.

        Returns:
            The state for the next step.

        Raises:
            ValueError: `params`, `grads` and `state` do not have the same shape and dtype.
        """
        ...
