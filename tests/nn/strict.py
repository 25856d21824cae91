"""Arrays that work with the functions of their own namespace only.

A stand-in for arrays on a device: numpy's functions refuse them, and so does any mixing with numpy
arrays, which on a device would be an error or a hidden copy.
"""

from __future__ import annotations

import operator
from types import ModuleType

import numpy as np


class StrictArray:
    __array_ufunc__ = None

    def __init__(self, value):
        self.value = value

    def __array_namespace__(self, api_version=None):
        return NAMESPACE

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit conversion to numpy")

    def get(self):
        return self.value.copy()

    def __getitem__(self, key):
        return _wrap(self.value[_unwrap(key)])

    def __setitem__(self, key, value):
        self.value[_unwrap(key)] = _unwrap(value)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        raise TypeError("element by element")

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __neg__(self):
        return _wrap(-self.value)

    def __invert__(self):
        return _wrap(~self.value)

    def __getattr__(self, name):
        if name.startswith("__"):  # no way round __array__, such as __array_interface__
            raise AttributeError(name)
        attribute = getattr(self.value, name)
        if callable(attribute):
            return lambda *args, **kwargs: _call(attribute, args, kwargs)
        return _wrap(attribute)


def _operator(function):
    def forward(self, other):
        return _wrap(function(self.value, _unwrap(other)))

    def reverse(self, other):
        return _wrap(function(_unwrap(other), self.value))

    def in_place(self, other):
        self.value = function(self.value, _unwrap(other))
        return self

    return forward, reverse, in_place


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "and_", "or_", "matmul"):
    _key = _name.rstrip("_")
    _forward, _reverse, _ = _operator(getattr(operator, _name))
    setattr(StrictArray, f"__{_key}__", _forward)
    setattr(StrictArray, f"__r{_key}__", _reverse)
    setattr(StrictArray, f"__i{_key}__", _operator(getattr(operator, "i" + _key))[2])
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(StrictArray, f"__{_name}__", _operator(getattr(operator, _name))[0])


class Namespace:
    """numpy's functions for StrictArray."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        attribute = getattr(self._module, name)
        if isinstance(attribute, ModuleType):
            return Namespace(attribute)
        if isinstance(attribute, type) or not callable(attribute):
            return attribute
        return lambda *args, **kwargs: _call(attribute, args, kwargs)

    def asarray(self, value, dtype=None):
        """The one way in from numpy."""
        return StrictArray(
            np.array(value.value if isinstance(value, StrictArray) else value, dtype)
        )


NAMESPACE = Namespace(np)


def _call(function, args, kwargs):
    return _wrap(
        function(*map(_unwrap, args), **{key: _unwrap(value) for key, value in kwargs.items()})
    )


def _wrap(value):
    if isinstance(value, np.ndarray | np.generic):
        return StrictArray(value)
    if isinstance(value, tuple | list):
        return type(value)(map(_wrap, value))
    return value


def _unwrap(value):
    if isinstance(value, StrictArray):
        return value.value
    if isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"a numpy {type(value).__name__} among arrays of another kind")
    if isinstance(value, tuple | list):
        return type(value)(map(_unwrap, value))
    return value
