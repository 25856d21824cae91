"""Count what goes to other ranks, and the time that it takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    """Counters of one rank; whoever communicates on its behalf adds to them.

    Attributes:
        messages: messages sent.
        bytes: bytes sent, or passed on in the shared memory of a node.
        seconds: time spent inside communication calls.
    """

    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, messages: int, nbytes: int, seconds: float) -> None:
        """Add one operation."""
        self.messages += messages
        self.bytes += nbytes
        self.seconds += seconds

    def since(self, earlier: Traffic) -> Traffic:
        """Return the difference to an earlier copy."""
        return Traffic(
            self.messages - earlier.messages,
            self.bytes - earlier.bytes,
            self.seconds - earlier.seconds,
        )

    def copy(self) -> Traffic:
        """Return the counters as they are now."""
        return Traffic(self.messages, self.bytes, self.seconds)
