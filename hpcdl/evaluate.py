"""Loss and accuracy on samples that are not trained on."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from collectives import Traffic, allreduce
from hpcdl.batches import Batches
from hpcdl.model import Model
from hpcdl.nn import softmax_cross_entropy


def evaluate(
    model: Model, data: Batches, comm: MPI.Comm, traffic: Traffic | None = None
) -> tuple[float, float]:
    """Evaluate the model on all samples, each rank on its part.

    Args:
        model: its parameters must be the same on all ranks.
        data: the samples.
        comm: all ranks of the run.
        traffic: counters to add to.

    Returns:
        Mean loss in nats, and the share of right answers (0..1).
    """
    tally = np.zeros(3)
    rng = np.random.default_rng(0)
    for batch in data.in_order():
        logits, _ = model.forward(batch.x, train=False, rng=rng)
        loss, correct, _ = softmax_cross_entropy(logits, batch.y)
        tally += np.array([loss, correct, len(batch.y)]) / model.replicas
    return means(tally, comm, traffic)


def means(tally: np.ndarray, comm: MPI.Comm, traffic: Traffic | None = None) -> tuple[float, float]:
    """Return mean loss and accuracy from each rank's sums: loss, right answers, samples."""
    total = allreduce(tally.copy(), comm=comm, traffic=traffic)
    samples = max(float(total[2]), 1.0)
    return float(total[0]) / samples, float(total[1]) / samples
