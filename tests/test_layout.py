"""Which part of an array a process holds."""

import numpy as np
import pytest

from hpcdl.layout import Layout


@pytest.mark.parametrize("shape", [(7,), (8, 3), (9, 5, 2), (2, 1)])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_blocks_cover_the_array_once_and_are_even(shape, parts):
    layout = Layout(shape, (parts,) * len(shape))
    seen = np.zeros(shape, int)
    for index in np.ndindex(*layout.parts):
        seen[layout.slices(index)] += 1
        assert seen[layout.slices(index)].shape == layout.local_shape(index)
        for i, length in enumerate(layout.local_shape(index)):
            assert length in (shape[i] // parts, -(-shape[i] // parts))
    assert (seen == 1).all()


def test_spans_are_in_order():
    assert Layout((7, 4), (3, 1)).spans(0) == [(0, 2), (2, 4), (4, 7)]
    assert Layout((7, 4), (3, 1)).spans(1) == [(0, 4)]
    assert Layout((2,), (4,)).spans(0) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"parts=\(2,\): needs 2 numbers"):
        Layout((4, 4), (2,))
    with pytest.raises(ValueError, match=r"parts=\(0,\)"):
        Layout((4,), (0,))
    with pytest.raises(ValueError, match=r"index=\(2,\): there are \(2,\) parts"):
        Layout((4,), (2,)).slices((2,))
