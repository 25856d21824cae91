"""What an array is."""

import numpy as np
import pytest

from collectives import memory
from tests.collectives.fakedevice import on_fake_device
from tests.nn.strict import StrictArray


def test_namespaces():
    x, _ = on_fake_device(np.zeros(3))
    assert memory.namespace(np.zeros(3)) is np
    assert memory.namespace(x) is x.xp
    with pytest.raises(TypeError, match="list is neither a numpy nor a cupy array"):
        memory.namespace([1.0])


def test_where_an_array_lies():
    x, _ = on_fake_device(np.zeros(3))
    assert memory.on_device(x)
    assert not memory.on_device(np.zeros(3))


def test_what_plans_work_on_as_it_is():
    x, _ = on_fake_device(np.zeros(3))
    assert memory.is_array(x)
    assert memory.is_array(np.zeros(3))
    for other in ([1.0], StrictArray(np.zeros(3)), memoryview(b"abc")):
        assert not memory.is_array(other)


def test_copies_of_any_stride():
    x, counts = on_fake_device(np.arange(12.0).reshape(3, 4))
    out = np.zeros((3, 2))
    memory.to_host(x[:, ::2], out)
    np.testing.assert_array_equal(out, [[0, 2], [4, 6], [8, 10]])
    memory.from_host(-out, x[:, 1::2])
    np.testing.assert_array_equal(x.host[0], [0, 0, 2, -2])
    assert (counts.down, counts.up) == (1, 1)


def test_a_stream_is_waited_for_only_where_there_is_one():
    x, counts = on_fake_device(np.zeros(3))
    memory.synchronize(np.zeros(3))
    memory.synchronize(x)
    assert counts.synchronized == 1
