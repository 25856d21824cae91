"""Batches and shares, checked against Python's own sort and plain counting."""

import numpy as np
import pytest

from hpcdl.data import GlobalBatches, permutation, share


@pytest.mark.parametrize("length", [0, 1, 2, 10, 1437])
def test_permutation_sorts_the_raw_stream(length):
    raw = np.random.PCG64(np.random.SeedSequence([3, 4])).random_raw(length)
    assert permutation(length, 3, 4).tolist() == sorted(range(length), key=list(raw).__getitem__)


def test_permutation_stays_what_it_is():
    """NumPy guarantees the stream: these values hold on every machine and in every version."""
    raw = np.random.PCG64(np.random.SeedSequence([0, 0])).random_raw(3)
    assert raw.tolist() == [11749869230777074271, 4976686463289251617, 755828109848996024]
    assert permutation(3, 0, 0).tolist() == [2, 1, 0]


def test_every_position_is_as_likely():
    """Chi-squared over where sample 0 lands: 9 degrees of freedom, p = 1e-6 at 48."""
    counts = np.zeros(10)
    for seed in range(5000):
        counts[int(np.flatnonzero(permutation(10, seed) == 0)[0])] += 1
    assert np.sum((counts - 500) ** 2 / 500) < 48


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("samples", "batch"), [(10, 3), (12, 3), (1, 1), (7, 7), (1437, 64)])
def test_an_epoch_shows_every_sample_once(samples, batch, drop_last):
    batches = GlobalBatches(samples, batch, 5, drop_last)
    parts = [batches.batch(2, k) for k in range(batches.steps_per_epoch)]
    whole = np.concatenate(parts)
    left_out = samples % batch if drop_last else 0
    assert len(whole) == samples - left_out
    assert len(set(whole.tolist())) == len(whole)
    assert whole.min() >= 0
    assert whole.max() < samples
    assert all(len(part) == batch for part in parts[:-1])
    assert len(parts[-1]) == (batch if drop_last or samples % batch == 0 else samples % batch)
    assert whole.dtype == np.int64
    assert np.array_equal(whole, batches.permutation(2)[: len(whole)])


def test_a_batch_larger_than_the_data_is_all_of_it():
    assert GlobalBatches(5, 64, 0).steps_per_epoch == 1
    assert sorted(GlobalBatches(5, 64, 0).batch(0, 0).tolist()) == [0, 1, 2, 3, 4]


def test_epochs_and_seeds_differ_and_repeat():
    orders = {
        tuple(GlobalBatches(50, 8, seed).permutation(epoch).tolist())
        for seed in range(4)
        for epoch in range(4)
    }
    assert len(orders) == 16
    again = GlobalBatches(50, 8, 3).permutation(3).tolist()
    assert tuple(again) in orders
    with pytest.raises(ValueError, match="read-only"):
        GlobalBatches(50, 8, 3).batch(0, 0)[0] = 1


@pytest.mark.parametrize("size", range(1, 9))
def test_shares_cover_the_batch_whatever_the_number_of_ranks(size):
    batches = GlobalBatches(45, 16, 1)
    for k in range(batches.steps_per_epoch):
        batch = batches.batch(0, k)
        parts = [share(batch, rank, size) for rank in range(size)]
        assert np.array_equal(np.concatenate(parts), batch)
        lengths = [len(part) for part in parts]
        assert max(lengths) - min(lengths) <= 1


def test_shares_may_be_empty():
    assert [share(np.arange(2), rank, 4).tolist() for rank in range(4)].count([]) == 2
    assert share(np.arange(0), 2, 3).tolist() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 0), "samples = 0; it must be >= 1"),
        ((5, 0, 0), "batch = 0; it must be >= 1"),
        ((5, 1, -1), "seed = -1; it must be >= 0"),
        ((5, 6, 0, True), "batch = 6; with drop_last it must be <= the 5 samples"),
    ],
)
def test_impossible_batches(arguments, message):
    with pytest.raises(ValueError, match=message):
        GlobalBatches(*arguments)


def test_there_is_no_such_batch_or_rank():
    with pytest.raises(ValueError, match=r"k = 3; it must be >= 0 and < 3"):
        GlobalBatches(9, 3, 0).batch(0, 3)
    with pytest.raises(ValueError, match=r"k = -1"):
        GlobalBatches(9, 3, 0).batch(0, -1)
    with pytest.raises(ValueError, match=r"rank = 2; it must be >= 0 and < size = 2"):
        share(np.arange(4), 2, 2)
