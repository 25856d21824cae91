"""Which samples make up each batch, and which of them each rank takes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from collectives import blocks

__all__ = ["GlobalBatches", "permutation", "share"]

Indices = NDArray[np.int64]


def permutation(length: int, *seeds: int) -> Indices:
    """Return a random order of 0 .. length-1 that is the same on every machine, for ever.

    The order is the one that sorts the raw output of a bit generator: NumPy promises never to
    change that stream, but makes no such promise for ``Generator.permutation`` (NEP 19).

    Args:
        length: number of values, >= 0.
        seeds: integers >= 0; other seeds give an independent order.

    Returns:
        int64, shape (length,).
    """
    raw = np.random.PCG64(np.random.SeedSequence(seeds)).random_raw(length)
    return np.argsort(raw, kind="stable").astype(np.int64, copy=False)


class GlobalBatches:
    """The batches of every epoch: all samples in a new random order, cut into pieces.

    Sampling is without replacement: each epoch shows every sample once, which converges no worse
    than drawing anew each time (Shamir 2016). Neither the ranks nor their number play a part, so
    a run on any number of ranks sees the same batches.

    Args:
        samples: number of samples, >= 1.
        batch: samples in a batch of all ranks together, >= 1.
        seed: integer >= 0.
        drop_last: leave out the last batch of an epoch if it is short.

    Attributes:
        samples: as given.
        batch_size: as given.
        seed: as given.
        drop_last: as given.

    Raises:
        ValueError: a value is out of range, or nothing is left to train on.
    """

    def __init__(self, samples: int, batch: int, seed: int, drop_last: bool = False) -> None:
        for name, value, low in (("samples", samples, 1), ("batch", batch, 1), ("seed", seed, 0)):
            if value < low:
                raise ValueError(f"{name} = {value}; it must be >= {low}")
        if drop_last and batch > samples:
            raise ValueError(
                f"batch = {batch}; with drop_last it must be <= the {samples} samples, "
                "or no batch is whole"
            )
        self.samples = samples
        self.batch_size = batch
        self.seed = seed
        self.drop_last = drop_last

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""
        if self.drop_last:
            return self.samples // self.batch_size
        return -(-self.samples // self.batch_size)

    def permutation(self, epoch: int) -> Indices:
        """Return the order of the samples in an epoch: int64, shape (samples,), read-only."""
        return _epoch_order(self.samples, self.seed, epoch)

    def batch(self, epoch: int, k: int) -> Indices:
        """Return the samples of batch ``k`` of an epoch.

        Args:
            epoch: counted from 0.
            k: 0 <= k < steps_per_epoch.

        Returns:
            int64, shape (batch,), or shorter for the last batch; read-only.

        Raises:
            ValueError: there is no such batch.
        """
        if not 0 <= k < self.steps_per_epoch:
            raise ValueError(f"k = {k}; it must be >= 0 and < {self.steps_per_epoch}")
        return self.permutation(epoch)[k * self.batch_size : (k + 1) * self.batch_size]


@lru_cache(maxsize=2)
def _epoch_order(samples: int, seed: int, epoch: int) -> Indices:
    order = permutation(samples, seed, epoch)
    order.flags.writeable = False
    return order


def share(indices: Indices, rank: int, size: int) -> Indices:
    """Return the part of a batch that one rank takes.

    The parts are contiguous, cover the batch, and differ in length by at most one; where ranks
    outnumber samples, some are empty.

    Args:
        indices: shape (n,).
        rank: 0 <= rank < size.
        size: number of parts, >= 1.

    Returns:
        A view of ``indices``.

    Raises:
        ValueError: there is no such rank.
    """
    if not 0 <= rank < size:
        raise ValueError(f"rank = {rank}; it must be >= 0 and < size = {size}")
    return indices[slice(*blocks.share(len(indices), rank, size))]
