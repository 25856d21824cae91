"""States of parts: joined in one array, kept also where a codec makes new arrays."""

import numpy as np
import pytest

from hpcdl.compression import QSGD, ErrorFeedback, TopK
from hpcdl.compression.states import PartStates, restore


def test_parts_are_views_of_one_array():
    states = PartStates(ErrorFeedback(TopK(0.5)), [3, 0, 4], np.float32, np)
    assert {name: (a.shape, a.dtype) for name, a in states.arrays.items()} == {
        "residual": ((7,), np.float32)
    }
    states[2]["residual"][...] = 1
    assert states.arrays["residual"].tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_a_new_array_is_copied_in():
    states = PartStates(ErrorFeedback(TopK(0.5)), [2, 2], np.float64, np)
    states[0] = {"residual": np.array([5.0, 6.0])}
    assert states.arrays["residual"].tolist() == [5, 6, 0, 0]
    assert states[0]["residual"].tolist() == [5, 6]


def test_nested_feedback_has_names_of_its_own():
    states = PartStates(ErrorFeedback(ErrorFeedback(TopK(0.5))), [2], np.float64, np)
    assert list(states.arrays) == ["residual", "inner.residual"]


def test_codecs_without_state():
    states = PartStates(QSGD(), [2, 2], np.float64, np)
    states[1] = states[1]
    assert states.arrays == {}
    restore(states.arrays, {})


def test_restore():
    states = PartStates(ErrorFeedback(TopK(0.5)), [1, 2], np.float64, np)
    restore(states.arrays, {"residual": np.arange(3.0)})
    assert states[1]["residual"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="of another codec or model"):
        restore(states.arrays, {"residual": np.arange(4.0)})
