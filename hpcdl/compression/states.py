"""The codec states of several parts of a vector, kept together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpcdl.array import namespace
from hpcdl.compression.codec import Codec, State


class PartStates:
    """One codec state for each part; one array for each name, so that a checkpoint holds few.

    Args:
        codec: the codec.
        lengths: of the parts.
        dtype: of the vector.
        xp: the namespace of its arrays, numpy or cupy.

    Attributes:
        arrays: by name, the parts' arrays flattened and joined.
    """

    def __init__(self, codec: Codec, lengths: Sequence[int], dtype: Any, xp: Any) -> None:
        made = [codec.init(n, dtype, xp) for n in lengths]
        self.arrays: State = {
            name: xp.concatenate([state[name].reshape(-1) for state in made]) for name in made[0]
        }
        self._parts: list[State] = [{} for _ in made]
        for name, joined in self.arrays.items():
            stop = 0
            for part, state in zip(self._parts, made, strict=True):
                start, stop = stop, stop + int(state[name].size)
                part[name] = joined[start:stop].reshape(state[name].shape)

    def __getitem__(self, part: int) -> State:
        """Return the state of a part: views of `arrays`."""
        return dict(self._parts[part])

    def __setitem__(self, part: int, state: State) -> None:
        """Store the new state of a part; nothing is copied where a codec worked in place."""
        for name, view in self._parts[part].items():
            if state[name] is not view:
                view[...] = state[name]


def restore(arrays: State, saved: Mapping[str, Any]) -> None:
    """Copy saved arrays into those of a state, by name.

    Raises:
        ValueError: the names or shapes differ: the state is of another codec or vector.
    """
    shapes = {name: tuple(a.shape) for name, a in arrays.items()}
    found = {name: tuple(a.shape) for name, a in saved.items()}
    if shapes != found:
        raise ValueError(
            f"arrays: have shapes {found}, needed are {shapes}; they are of another codec or model"
        )
    for name, target in arrays.items():
        target[...] = namespace(target).asarray(saved[name])
