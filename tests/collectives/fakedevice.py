"""A device array without a device: host memory behind the CUDA array interface.

It refuses to become a numpy array by itself, as a cupy array does, and counts the copies to and
from the host and the synchronizations of its stream.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np


class Counts:
    def __init__(self):
        self.down = self.up = self.synchronized = 0


class FakeNamespace:
    """The functions of cupy that the executor uses."""

    uint8 = np.uint8

    def __init__(self, counts):
        self.counts = counts
        stream = SimpleNamespace(synchronize=self._synchronize)
        self.cuda = SimpleNamespace(get_current_stream=lambda: stream)

    def _synchronize(self):
        self.counts.synchronized += 1

    def empty(self, shape, dtype):
        return FakeArray(np.full(shape, 77, dtype), self)

    def asarray(self, host):
        assert isinstance(host, np.ndarray)
        self.counts.up += 1
        return FakeArray(host.copy(), self)

    def array(self, x, order="K"):
        return FakeArray(np.array(x.host, order=order), self)

    def ascontiguousarray(self, x):
        return FakeArray(np.ascontiguousarray(x.host), self)

    def _ufunc(self, f, a, b, out):
        assert all(type(x) is FakeArray for x in (a, b, out))
        f(a.host, b.host, out=out.host)

    def add(self, a, b, out):
        self._ufunc(np.add, a, b, out)

    def multiply(self, a, b, out):
        self._ufunc(np.multiply, a, b, out)

    def minimum(self, a, b, out):
        self._ufunc(np.minimum, a, b, out)

    def maximum(self, a, b, out):
        self._ufunc(np.maximum, a, b, out)


class FakeArray:
    def __init__(self, host, xp):
        self.host, self.xp = host, xp

    def __array_namespace__(self):
        return self.xp

    def __array__(self, *args, **kwargs):
        raise TypeError("a device array does not become a numpy array by itself")

    @property
    def __cuda_array_interface__(self):
        return {**self.host.__array_interface__, "version": 3, "stream": None}

    def __getattr__(self, name):
        if name in ("dtype", "shape", "size", "nbytes", "flags", "ndim", "strides"):
            return getattr(self.host, name)
        raise AttributeError(name)

    def reshape(self, *shape):
        return FakeArray(self.host.reshape(*shape), self.xp)

    def view(self, dtype):
        return FakeArray(self.host.view(dtype), self.xp)

    def get(self, out):
        self.xp.counts.down += 1
        out[...] = self.host

    def __getitem__(self, index):
        return FakeArray(self.host[index], self.xp)

    def __setitem__(self, index, value):
        assert type(value) is FakeArray or np.isscalar(value), "not from host memory"
        self.host[index] = value.host if type(value) is FakeArray else value


def on_fake_device(host):
    """Return a device array with a copy of these values, and the counters of its namespace."""
    xp = FakeNamespace(Counts())
    return FakeArray(np.array(host), xp), xp.counts
