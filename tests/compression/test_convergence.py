"""Each codec trains a network as well as no codec does; without error feedback top-k does not."""

import functools

import numpy as np
import pytest

from hpcdl.compression import CODECS, ErrorFeedback
from tests.compression.digits import train


@functools.cache
def outcome(codec):
    """Return the mean training loss and test accuracy of 3 seeds on 4 emulated ranks."""
    return np.mean([train(codec, 4, seed, 20) for seed in range(3)], axis=0)


@pytest.mark.parametrize("name", CODECS)
def test_as_good_as_without(name):
    codec = CODECS[name]()
    loss, accuracy = outcome(codec if codec.unbiased else ErrorFeedback(codec))
    dense_loss, dense_accuracy = outcome(None)
    assert dense_accuracy > 97.5
    assert accuracy >= dense_accuracy - 1.0
    assert loss <= max(3 * dense_loss, 0.05)


def test_top_k_needs_error_feedback():
    assert outcome(CODECS["topk"]())[0] >= 5 * outcome(None)[0]
