"""Plans that are kept for the next array of the same shape."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """Anything with a `close`."""

    def close(self) -> None:
        """Free what is held."""


T = TypeVar("T", bound=Closable)


class PlanCache(Generic[T]):
    """The last few plans by key; the one that was not used for longest is closed first.

    Plans are made in the same order on all ranks, and so all ranks must ask for the same keys in
    the same order.

    Args:
        most: how many to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the plan of a key; it is made if there is none."""
        if key not in self._kept:
            while len(self._kept) >= self._most:
                self._kept.popitem(last=False)[1].close()
            self._kept[key] = make()
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        """Close all plans that are kept."""
        while self._kept:
            self._kept.popitem()[1].close()
