"""A device array without a device: host memory behind the CUDA array interface.

As on a device, it takes the functions of its own namespace only, and neither becomes a numpy array
by itself nor mixes with one. Copies on a stream of their own happen as late as they may: when
somebody has asked for their event twice, or waits for it. So memory that is read or handed out too
early has the wrong values in it. A copy that does not wait for the work on the current stream that
wrote its source is an error at once.
"""

from __future__ import annotations

import operator
from types import ModuleType, SimpleNamespace

import numpy as np


class Counts:
    """How often what was done, on all arrays that were made together."""

    def __init__(self):
        self.down = self.up = self.synchronized = 0


class Event:
    def __init__(self, disable_timing=False):
        self.asked = 0
        self.mark()

    def mark(self, stream=None):
        self.stream = stream
        self.work = len(stream.queue) + stream.finished if stream else 0
        self.asked = 0

    @property
    def done(self):
        self.asked += 1
        if self.asked % 2 == 0:
            self.synchronize()
        return self.stream is None or self.stream.finished >= self.work

    def synchronize(self):
        while self.stream is not None and self.stream.finished < self.work:
            self.stream.finish_one()


class Stream:
    """Work in order. The current stream does its work at once, any other one when it must."""

    def __init__(self, xp, non_blocking=False):
        self.xp = xp
        self.queue = []
        self.finished = 0
        self.seen = {}  # of other streams, how much of their work this one waits for

    def add(self, work):
        self.queue.append(work)
        if self is self.xp.current:
            self.synchronize()

    def finish_one(self):
        self.queue.pop(0)()
        self.finished += 1

    def synchronize(self):
        self.xp.counts.synchronized += 1
        while self.queue:
            self.finish_one()

    def record(self, event=None):
        event = event or Event()
        event.mark(self)
        return event

    def wait_event(self, event):
        self.seen[event.stream] = max(self.seen.get(event.stream, 0), event.work)
        self.queue.append(event.synchronize)

    def __enter__(self):
        self.before, self.xp.current = self.xp.current, self
        while self.queue:
            self.finish_one()

    def __exit__(self, *error):
        self.xp.current = self.before


class FakeNamespace:
    """numpy's functions, and the streams of cupy, for FakeArray."""

    def __init__(self, counts):
        self.counts = counts
        self.current = Stream(self)
        self.written = {}  # (start, stop) of memory: the stream that wrote there last, and when
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: self.current,
            Stream=lambda **kwargs: Stream(self, **kwargs),
            Event=Event,
            Device=lambda: SimpleNamespace(id=0),
        )

    def wrote(self, host):
        """Note that the current stream has written to some memory."""
        self.current.finished += 1
        self.written[np.lib.array_utils.byte_bounds(host)] = self.current, self.current.finished

    def check_order(self, stream, host):
        """Check that a stream waits for what has been written to memory that it is to read."""
        start, stop = np.lib.array_utils.byte_bounds(host)
        for (a, b), (writer, when) in self.written.items():
            if a < stop and start < b and writer is not stream:
                assert stream.seen.get(writer, 0) >= when, "a copy does not wait for its source"

    def empty(self, shape, dtype):
        return self.wrap(np.full(shape, 77, dtype))

    def asarray(self, value, dtype=None):
        """The one way in from numpy."""
        if isinstance(value, np.ndarray):
            self.counts.up += 1
        return self.wrap(np.array(self.unwrap(value, numpy_too=True), dtype))

    def __getattr__(self, name):
        return self._offered(np, name)

    def _offered(self, module, name):
        found = getattr(module, name)
        if isinstance(found, ModuleType):
            return SubModule(self, found)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **kwargs: self.call(found, args, kwargs)

    def call(self, function, args, kwargs):
        out = kwargs.get("out")
        result = function(*map(self.unwrap, args), **{k: self.unwrap(v) for k, v in kwargs.items()})
        if out is not None:
            self.wrote(out.host)
            return out
        return self.wrap(result)

    def wrap(self, value):
        if isinstance(value, np.ndarray | np.generic):
            return FakeArray(np.asarray(value), self)
        if isinstance(value, tuple | list):
            return type(value)(map(self.wrap, value))
        return value

    def unwrap(self, value, numpy_too=False):
        if isinstance(value, FakeArray):
            return value.host
        if isinstance(value, np.ndarray) and not numpy_too:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")  # as cupy says it
        if isinstance(value, tuple | list):
            return type(value)(self.unwrap(v) for v in value)
        return value


class SubModule:
    """What lies deeper, as ``lib.stride_tricks``."""

    def __init__(self, xp, module):
        self._xp, self._module = xp, module

    def __getattr__(self, name):
        return self._xp._offered(self._module, name)


class FakeArray:
    __array_ufunc__ = None
    device = SimpleNamespace(id=0)

    def __init__(self, host, xp):
        self.host, self.xp = host, xp

    def __array_namespace__(self, api_version=None):
        return self.xp

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self):
        return {**self.host.__array_interface__, "version": 3, "stream": None}

    def __getattr__(self, name):
        if name.startswith("__"):  # no way round __array__, such as __array_interface__
            raise AttributeError(name)
        found = getattr(self.host, name)
        if callable(found):
            return lambda *args, **kwargs: self.xp.call(found, args, kwargs)
        return self.xp.wrap(found) if isinstance(found, np.ndarray) else found

    def view(self, dtype):
        made = FakeArray(self.host.view(dtype), self.xp)
        # A device reads words only where they are aligned; its allocations are.
        root = self.host
        while isinstance(root.base, np.ndarray):
            root = root.base
        offset = self.host.ctypes.data - root.ctypes.data
        assert not self.size or offset % np.dtype(dtype).itemsize == 0, "misaligned address"
        return made

    def get(self, stream=None, order="C", out=None, blocking=True):
        stream = stream or self.xp.current
        out = np.empty(self.shape, self.dtype) if out is None else out
        assert out.flags.c_contiguous
        assert self.host.flags.c_contiguous or blocking
        assert (out.shape, out.dtype) == (self.shape, self.dtype)
        self.xp.counts.down += 1
        self.xp.check_order(stream, self.host)
        stream.add(lambda: np.copyto(out, self.host))
        if blocking:
            stream.synchronize()
        return out

    def set(self, host, stream=None):
        assert isinstance(host, np.ndarray)
        assert self.host.flags.c_contiguous
        assert (host.shape, host.dtype) == (self.shape, self.dtype)
        self.xp.counts.up += 1
        (stream or self.xp.current).add(lambda: np.copyto(self.host, host))

    def __len__(self):
        return len(self.host)

    def __iter__(self):
        if self.ndim < 2:
            raise TypeError("element by element")
        return (self[i] for i in range(len(self.host)))

    def __getitem__(self, index):
        return self.xp.wrap(self.host[self.xp.unwrap(index)])

    def __setitem__(self, index, value):
        self.host[self.xp.unwrap(index)] = self.xp.unwrap(value)
        self.xp.wrote(self.host)

    def __bool__(self):
        return bool(self.host)

    def __int__(self):
        return int(self.host)

    def __float__(self):
        return float(self.host)

    def __neg__(self):
        return self.xp.wrap(-self.host)

    def __invert__(self):
        return self.xp.wrap(~self.host)


def _operators(function, in_place):
    def forward(self, other):
        return self.xp.wrap(function(self.host, self.xp.unwrap(other)))

    def reverse(self, other):
        return self.xp.wrap(function(self.xp.unwrap(other), self.host))

    def itself(self, other):
        in_place(self.host, self.xp.unwrap(other))
        self.xp.wrote(self.host)
        return self

    return forward, reverse, itself


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "and_", "or_", "matmul"):
    _key = _name.rstrip("_")
    _made = _operators(getattr(operator, _name), getattr(operator, f"i{_key}"))
    for _prefix, _method in zip(("", "r", "i"), _made, strict=True):
        setattr(FakeArray, f"__{_prefix}{_key}__", _method)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _function = getattr(operator, _name)
    setattr(FakeArray, f"__{_name}__", _operators(_function, _function)[0])


def on_fake_device(host):
    """Return a device array with a copy of these values, and the counters of its namespace."""
    xp = FakeNamespace(Counts())
    return FakeArray(np.array(host), xp), xp.counts
