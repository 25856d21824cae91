"""What every executor gives: a collective bound to memory, run as often as one likes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from collectives.closing import Closing


class Plan(Closing):
    """A collective bound to memory and to a communicator.

    Making one is collective over the communicator, and must happen in the same order on all ranks;
    plans of one communicator may be started, tested and waited for in any order; those of several
    are waited for in the same order on all ranks, unless threads run them. `start` and `wait` run
    it; `test` makes progress in between. Where no run is under way, because none was started or the
    last one is finished, `wait` does nothing and `test` returns True, as MPI does for requests that
    are not active. Use it as a context manager, or call `close`.

    Runs of the executor "shared" take turns in the order in which the first rank of a node starts
    them. So a rank may not wait for one while another, which that rank has started before it, has
    not been started here: `wait` refuses that. Runs on several nodes must be started in the same
    order on all ranks. Plans of one communicator are used by one thread at a time.

    Attributes:
        messages: messages that this rank sends in one run, those to itself left out.
        bytes_sent: their bytes; in shared memory those that other ranks take from this one.
        scratch_bytes: memory allocated by the plan.
        collective: what it does, such as "allreduce"; empty where it is none of those.
        algorithm: what it runs, as `collectives.registry.Registry.get` takes it.
        executor: what runs it: "python", "native" or "shared".
        can_rebind: whether `rebind` works.
    """

    messages: int = 0
    bytes_sent: int = 0
    scratch_bytes: int = 0
    collective: str = ""
    algorithm: str = ""
    executor: str = ""
    can_rebind: bool = False

    def __repr__(self) -> str:
        what = (("collective", self.collective), ("algorithm", self.algorithm))
        told = "".join(f"{name}={value!r}, " for name, value in what if value)
        return f"<{type(self).__name__} {told}executor={self.executor!r}>"

    @abstractmethod
    def start(self) -> None:
        """Begin a run. Does not block.

        Raises:
            RuntimeError: the plan is closed or runs already.
        """

    @abstractmethod
    def test(self) -> bool:
        """Make progress without blocking; return whether no run is under way any more.

        Raises:
            RuntimeError: the plan is closed.
        """

    @abstractmethod
    def wait(self) -> None:
        """Block until the run is finished; return at once where none is under way.

        Raises:
            RuntimeError: the plan is closed.
        """

    @abstractmethod
    def progress(self) -> bool:
        """Go on as far as that is possible without waiting; return whether all is done."""

    @abstractmethod
    def waiting_for(self) -> list[int]:
        """Return the ranks whose messages are still missing, as far as is known; [] if idle."""

    def rebind(self, *regions: Any) -> None:
        """Run on other arrays from now on, of the same lengths as those that it was made on.

        Raises:
            TypeError: this executor cannot.
        """
        raise TypeError(f"the executor {self.executor!r} is bound to its memory for good")

    def run(self) -> None:
        """Start and wait."""
        self.start()
        self.wait()
