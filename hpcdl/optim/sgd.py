"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hpcdl.array import Array, namespace
from hpcdl.optim.optimizer import State

# Elements that are updated at a time on the host, few enough for the cache: each vector is then
# read from memory once, and not once for each operation.
BLOCK = 1 << 16


@dataclass(frozen=True)
class SGD:
    """Gradient descent with momentum and weight decay.

    With gradient g, weights w, velocity v (zero at first) and rate lr(step):

        d = g + weight_decay w
        v = momentum v + d
        w = w - lr v                    or, with nesterov,  w - lr (d + momentum v)

    This is heavy-ball momentum (Polyak 1964) with the rate outside the velocity, and Nesterov's in
    the form of Sutskever et al. (2013).

    Attributes:
        lr: learning rate, at least 0, or a function of the step.
        momentum: in 0..1, less than 1; 0 for none, which keeps no state.
        weight_decay: at least 0; weight of the L2 penalty, which is added to the gradient.
        nesterov: look ahead; needs momentum.

    Raises:
        ValueError: a value is out of range.
    """

    lr: float | Callable[[int], float]
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not callable(self.lr) and not self.lr >= 0.0:
            raise ValueError(f"SGD: lr must be at least 0, got {self.lr}")
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"SGD: momentum must be in 0..1 and less than 1, got {self.momentum}")
        if not self.weight_decay >= 0.0:
            raise ValueError(f"SGD: weight_decay must be at least 0, got {self.weight_decay}")
        if self.nesterov and self.momentum == 0.0:
            raise ValueError("SGD: nesterov needs a momentum of more than 0, got 0")

    def init(self, params: Array) -> State:
        """See `Optimizer.init`; the state is {"velocity": v}, or empty without momentum."""
        return {"velocity": namespace(params).zeros_like(params)} if self.momentum else {}

    def update(self, params: Array, grads: Array, state: State, step: int) -> State:
        """See `Optimizer.update`."""
        xp = namespace(params)
        if self.momentum and "velocity" not in state:
            raise ValueError(f"SGD: state needs a velocity, got {sorted(state)}")
        for name, vector in {"grads": grads, **state}.items():
            if (vector.shape, vector.dtype) != (params.shape, params.dtype):
                raise ValueError(
                    f"SGD: {name} needs the shape {params.shape} and dtype {params.dtype} of "
                    f"params, got {vector.shape} and {vector.dtype}"
                )
        # A Python float goes with arrays of any kind and type; the scalar of a schedule may not.
        rate = float(self.lr(step) if callable(self.lr) else self.lr)
        velocity = state["velocity"] if self.momentum else None
        block = BLOCK if xp is np else max(1, params.size)
        scratch = xp.empty((2, min(block, params.size)), params.dtype)
        for start in range(0, params.size, block):
            here = slice(start, start + block)
            w, d = params[here], grads[here]
            s, t = scratch[0, : w.size], scratch[1, : w.size]
            if self.weight_decay:
                xp.multiply(w, self.weight_decay, out=s)
                s += d
                d = s
            if velocity is not None:
                v = velocity[here]
                v *= self.momentum
                v += d
                if self.nesterov:
                    xp.multiply(v, self.momentum, out=t)
                    t += d
                    d = t
                else:
                    d = v
            xp.multiply(d, rate, out=t)
            w -= t
        return state
