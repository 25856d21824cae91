"""Context managers whose end is collective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

T = TypeVar("T", bound="Closing")


class Closing(ABC):
    """Something that is closed at the end of a ``with`` block, unless an exception ends the block.

    Closing is collective: after an exception the other ranks may never come to it, and waiting for
    them would hide the exception.
    """

    @abstractmethod
    def close(self) -> None:
        """Free what is held; closing twice is harmless."""

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
