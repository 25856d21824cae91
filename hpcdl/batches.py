"""The batches of a run, as one rank sees them: its samples, and its rows of each image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hpcdl.array import Array
from hpcdl.data import GlobalBatches, share
from hpcdl.errors import UserError


class Samples(Protocol):
    """Where samples come from: `HDF5Dataset`, or anything with these."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def read(self, indices: Any, rows: slice | None = None) -> tuple[Any, Any]:
        """Return these samples, and of each only these rows, and their targets."""


class ArraySamples:
    """Samples that lie in memory.

    Args:
        x: (N, ...), the samples.
        y: (N,), their targets.

    Raises:
        ValueError: the lengths differ.
    """

    def __init__(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        if len(x) != len(y):
            raise ValueError(f"x has {len(x)} samples, y {len(y)} targets; they must agree")
        self._x, self._y = x, y

    def __len__(self) -> int:
        return len(self._x)

    def read(self, indices: Any, rows: slice | None = None) -> tuple[Any, Any]:
        """Return these samples, and of each only these rows, and their targets."""
        x = self._x[indices] if rows is None else self._x[indices, rows]
        return x, self._y[indices]


@dataclass(frozen=True, slots=True)
class Batch:
    """One rank's part of a global batch.

    Attributes:
        x: (n, ...), this rank's samples; of each, this rank's rows.
        y: (n,), their targets.
        total: samples of the global batch.
    """

    x: Array
    y: Array
    total: int


class Batches:
    """What one rank takes of each global batch.

    The global batches do not depend on the number of ranks; a batch is dealt out in contiguous
    parts whose sizes differ by at most one.

    Args:
        samples: where they come from.
        batch: samples of a global batch.
        seed: of the order; a new one for each epoch.
        part: which part of each batch is this rank's.
        parts: how many there are.
        rows: this rank's rows of each image; None for all.
        dtype: of the samples that are returned.
        xp: numpy, or cupy for a GPU.
        drop_last: leave out the last batch of an epoch where it is short.
    """

    def __init__(
        self,
        samples: Samples,
        batch: int,
        *,
        seed: int = 0,
        part: int = 0,
        parts: int = 1,
        rows: slice | None = None,
        dtype: DTypeLike = np.float32,
        xp: Any = np,
        drop_last: bool = False,
    ) -> None:
        self._samples, self._xp, self._dtype = samples, xp, dtype
        self._part, self._parts, self._rows = part, parts, rows
        self._order = GlobalBatches(len(samples), batch, seed, drop_last)
        self.steps_per_epoch = self._order.steps_per_epoch

    @property
    def batch_size(self) -> int:
        """Samples of a global batch; the last of an epoch may have fewer."""
        return self._order.batch_size

    @property
    def samples(self) -> int:
        """Samples of an epoch, of all ranks."""
        return min(len(self._samples), self.steps_per_epoch * self._order.batch_size)

    def train(self, step: int) -> Batch:
        """Return this rank's part of the batch of a step, counted from 0 over all epochs."""
        epoch, k = divmod(step, self.steps_per_epoch)
        return self._read(self._order.batch(epoch, k))

    def in_order(self) -> Iterator[Batch]:
        """Yield this rank's parts of all samples, in the order of the file; for evaluation."""
        size = self._order.batch_size
        for start in range(0, len(self._samples), size):
            yield self._read(np.arange(start, min(start + size, len(self._samples))))

    def _read(self, indices: NDArray[np.int64]) -> Batch:
        x, y = self._samples.read(share(indices, self._part, self._parts), self._rows)
        _check_finite(x, self._dtype)
        xp = self._xp
        return Batch(xp.asarray(x, dtype=self._dtype), xp.asarray(y), len(indices))


def _check_finite(x: NDArray[Any], dtype: DTypeLike) -> None:
    """Refuse samples that spoil the weights of all ranks, before they are taken for divergence."""
    if x.dtype.kind != "f" or x.size == 0:
        return
    limit = np.finfo(dtype).max
    if not (-limit <= x.min() and x.max() <= limit):  # false for NaN, too
        raise UserError(
            f"samples of this batch hold NaN, infinite values, or values beyond {np.dtype(dtype)}"
        )
