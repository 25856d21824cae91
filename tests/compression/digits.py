"""A small network on the digits, trained by emulated ranks with numpy alone."""

import functools

import numpy as np
from sklearn.datasets import load_digits

SHAPES = ((64, 64), (64,), (64, 10), (10,))
SIZE = sum(int(np.prod(shape)) for shape in SHAPES)


@functools.cache
def digits():
    """Return train x, y and test x, y: 1437 and 360 samples, values 0 .. 1."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    return x[:1437], y[:1437], x[1437:], y[1437:]


def layers(vector):
    """Return views of a flat vector: weights and biases of 64 - 64 - 10."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    return [part.reshape(s) for part, s in zip(np.split(vector, ends), SHAPES, strict=True)]


def forward(w, x):
    """Return the hidden values and the probabilities."""
    w1, b1, w2, b2 = layers(w)
    hidden = np.maximum(x @ w1 + b1, 0)
    z = hidden @ w2 + b2
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return hidden, z / z.sum(axis=1, keepdims=True)


def gradient(w, x, y, batch):
    """Return the gradient of the sum of the losses, over the size of the global batch."""
    hidden, p = forward(w, x)
    p[np.arange(len(y)), y] -= 1
    p /= batch
    back = (p @ layers(w)[2].T) * (hidden > 0)
    return np.concatenate([(x.T @ back).ravel(), back.sum(0), (hidden.T @ p).ravel(), p.sum(0)])


def train(codec, ranks, seed, epochs):
    """Train with the sum of what each rank's payload stands for; None: with the sum itself.

    Returns:
        The training loss and the accuracy on the test set, in percent.
    """
    x, y, test_x, test_y = digits()
    rng = np.random.default_rng(seed)
    w = np.zeros(SIZE, np.float32)
    for layer in (0, 2):
        weights = layers(w)[layer]
        weights[...] = rng.standard_normal(weights.shape) * np.sqrt(2 / len(weights))
    velocity = np.zeros_like(w)
    states = [codec.init(SIZE, w.dtype) if codec else {} for _ in range(ranks)]
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x), 64):
            batch = order[start : start + 64]
            total = np.zeros_like(w)
            for rank, mine in enumerate(np.array_split(batch, ranks)):
                g = gradient(w, x[mine], y[mine], len(batch))
                if codec is None:
                    total += g
                else:
                    payload, states[rank] = codec.encode(g, states[rank], rng)
                    codec.decode(payload, total)
            velocity = np.float32(0.9) * velocity + total
            w -= np.float32(0.1) * velocity
    loss = -np.log(forward(w, x)[1][np.arange(len(y)), y]).mean()
    return float(loss), 100 * float((forward(w, test_x)[1].argmax(axis=1) == test_y).mean())
