"""Softmax cross-entropy."""

import math

import numpy as np
import pytest

from hpcdl.array import to_host
from hpcdl.nn import softmax_cross_entropy
from tests.nn.helpers import central_difference, relative_error
from tests.nn.strict import StrictArray


def batch(samples=6, classes=4):
    rng = np.random.default_rng(0)
    return rng.standard_normal((samples, classes)) * 2, rng.integers(0, classes, samples)


def test_equals_the_definition():
    logits, labels = batch()
    loss, correct, _ = softmax_cross_entropy(logits, labels)
    want = 0.0
    hits = 0
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        want -= math.log(math.exp(row[label]) / math.fsum(map(math.exp, row)))
        hits += row.index(max(row)) == label
    assert type(loss) is float
    assert type(correct) is int
    assert abs(loss - want) < 1e-13 * want
    assert correct == hits


def test_gradient():
    logits, labels = batch()
    _, _, dlogits = softmax_cross_entropy(logits, labels)
    numeric = central_difference(lambda: softmax_cross_entropy(logits, labels)[0], logits)
    assert relative_error(dlogits, numeric) < 1e-6
    np.testing.assert_allclose(dlogits.sum(axis=1), 0, atol=1e-15)


def test_it_is_a_sum():
    logits, labels = batch()
    whole = softmax_cross_entropy(logits, labels)
    first, second = (softmax_cross_entropy(logits[s], labels[s]) for s in np.s_[:2, 2:])
    assert abs(first[0] + second[0] - whole[0]) < 1e-13
    assert first[1] + second[1] == whole[1]
    np.testing.assert_allclose(np.concatenate([first[2], second[2]]), whole[2], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits_do_not_overflow(dtype):
    logits = np.array([[1e4, 0.0], [0.0, 1e4]], dtype)
    loss, correct, dlogits = softmax_cross_entropy(logits, np.array([0, 0]))
    assert loss == 1e4
    assert correct == 1
    assert dlogits.tolist() == [[0, 0], [-1, 1]]
    assert dlogits.dtype == dtype


def test_of_equal_logits_the_first_is_the_answer():
    loss, correct, _ = softmax_cross_entropy(np.zeros((2, 5)), np.array([0, 4]))
    assert abs(loss - 2 * math.log(5)) < 1e-15
    assert correct == 1


def test_empty_batch():
    loss, correct, dlogits = softmax_cross_entropy(np.zeros((0, 3)), np.zeros(0, int))
    assert (loss, correct, dlogits.shape) == (0.0, 0, (0, 3))


def test_nan_is_told():
    logits, labels = batch()
    logits[2, 1] = np.nan
    assert math.isnan(softmax_cross_entropy(logits, labels)[0])


def test_arguments_are_left_alone_and_labels_may_be_small_integers():
    logits, labels = batch()
    before = logits.copy()
    want = softmax_cross_entropy(logits, labels)
    got = softmax_cross_entropy(logits, labels.astype(np.uint8))
    assert got[:2] == want[:2]
    assert np.array_equal(logits, before)


def test_the_namespace_of_the_array():
    logits, labels = batch()
    loss, correct, dlogits = softmax_cross_entropy(StrictArray(logits), StrictArray(labels))
    want = softmax_cross_entropy(logits, labels)
    assert (loss, correct) == want[:2]
    assert np.array_equal(to_host(dlogits), want[2])


@pytest.mark.parametrize(
    ("logits", "labels", "error", "match"),
    [
        (np.zeros((2, 3)), np.array([0, 3]), ValueError, r"labels: needs values in 0\.\.2, got"),
        (np.zeros((2, 3)), np.array([0, -1]), ValueError, r"labels: .*values in -1\.\.0"),
        (np.zeros((2, 3)), np.array([0]), ValueError, r"labels: needs shape \(2,\), got \(1,\)"),
        (np.zeros(3), np.array([0]), ValueError, r"logits: needs shape .*, got \(3,\)"),
        (np.zeros((2, 3)), np.zeros(2), TypeError, "labels: needs an integer type, got float64"),
        (np.zeros((2, 3)), np.zeros(2, bool), TypeError, "labels: .*, got bool"),
    ],
)
def test_refusals(logits, labels, error, match):
    with pytest.raises(error, match=match):
        softmax_cross_entropy(logits, labels)
