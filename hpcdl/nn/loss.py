"""The loss of classification."""

from __future__ import annotations

from hpcdl.array import Array, namespace


def softmax_cross_entropy(logits: Array, labels: Array) -> tuple[float, int, Array]:
    """Cross-entropy of a softmax, summed over the samples.

    Sums, not means, so that ranks with unequal numbers of samples add up to the right mean: the
    caller scales by one over the number of samples of the global batch.

    Args:
        logits: (N, K), K >= 1; N may be 0.
        labels: (N,), integers in 0..K-1.

    Returns:
        The sum of the losses in nats; the number of samples whose largest logit is at the label
        (the first of several largest); and the derivative of the sum by the logits, (N, K), of
        their dtype.

    Raises:
        ValueError: shapes do not fit, or a label is not in 0..K-1.
        TypeError: `labels` is not of an integer type.
    """
    xp = namespace(logits)
    if logits.ndim != 2 or logits.shape[1] < 1:
        raise ValueError(f"logits: needs shape (samples, classes), got {tuple(logits.shape)}")
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"labels: needs shape {logits.shape[:1]}, got {tuple(labels.shape)}")
    if labels.dtype.kind not in "iu":
        raise TypeError(f"labels: needs an integer type, got {labels.dtype}")
    samples, classes = logits.shape
    if samples == 0:
        return 0.0, 0, xp.zeros_like(logits)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ValueError(f"labels: needs values in 0..{classes - 1}, got values in {low}..{high}")
    shifted = logits - logits.max(axis=1, keepdims=True)
    dlogits = xp.exp(shifted)
    total = dlogits.sum(axis=1, keepdims=True)
    at_label = xp.arange(samples), labels
    loss = (xp.log(total[:, 0]) - shifted[at_label]).sum(dtype=xp.float64)
    dlogits /= total
    dlogits[at_label] -= 1
    correct = (logits.argmax(axis=1) == labels).sum()
    return float(loss), int(correct), dlogits
