"""Least squares on rows dealt out unevenly, and an optimizer written down here."""

import numpy as np

DIMENSION = 6


def batch(step, samples=11):
    """Return the rows and targets of a step; every third batch is short."""
    rng = np.random.default_rng([17, step])
    count = samples if step % 3 != 2 else 2
    a = rng.standard_normal((count, DIMENSION))
    return a, a @ np.arange(1.0, DIMENSION + 1) + 0.1 * rng.standard_normal(count)


def share_of_gradient(w, step, rank, size):
    """Return the gradient of a rank's rows, over the number of all rows: uneven, also none."""
    a, b = batch(step)
    mine = slice(rank * len(a) // size, (rank + 1) * len(a) // size)
    return a[mine].T @ (a[mine] @ w - b[mine]) / len(a)


class Momentum:
    """SGD with momentum and weight decay, as plain as it can be."""

    def __init__(self, lr=0.05, momentum=0.8, decay=0.01, nesterov=False):
        self.lr, self.momentum, self.decay, self.nesterov = lr, momentum, decay, nesterov
        self.velocity = np.zeros(DIMENSION)

    def update(self, w, g):
        g = g + self.decay * w
        self.velocity = self.momentum * self.velocity + g
        w -= self.lr * (g + self.momentum * self.velocity if self.nesterov else self.velocity)


def serial(steps, **options):
    """Return the parameters after each step of training on one rank, without communication."""
    w, optimizer, path = np.zeros(DIMENSION), Momentum(**options), []
    for step in range(steps):
        optimizer.update(w, share_of_gradient(w, step, 0, 1))
        path.append(w.copy())
    return np.array(path)


def train(consistency, comm, steps, traffic=None, state=None, first=0, w=None, **options):
    """Return the parameters of this rank after each step, and its state at the end."""
    w = np.zeros(DIMENSION) if w is None else w
    g, optimizer, path = np.zeros(DIMENSION), Momentum(**options), []
    state = consistency.init(w, g, comm, traffic=traffic)
    for step in range(first, steps):
        g[...] = share_of_gradient(w, step, comm.rank, comm.size)
        consistency.reduce(g, state, step)
        optimizer.update(w, g)
        consistency.mix(w, state, step)
        path.append(w.copy())
    consistency.flush(w, state)
    consistency.close(state)
    return np.array([*path, w])
