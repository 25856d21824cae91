"""Compare a call on all ranks before it communicates, so that no mistake becomes a hang.

Every checked call begins with the same exchange, whatever the call is (see
`collectives.rendezvous`). So ranks that disagree in the very operation, or in the order of calls,
meet in this exchange too, and a rank whose arguments are wrong takes part, with its error. Nothing
is waited for longer than a time limit.

The price is two messages for each rank, all of them through rank 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from mpi4py import MPI

from collectives.channel import open_channel
from collectives.disagreement import DISAGREE, Call, shortened
from collectives.rendezvous import Rendezvous

SECONDS = 10.0
"""How long ranks wait for each other where nobody says."""

P = ParamSpec("P")
T = TypeVar("T")


class AgreementError(ValueError):
    """The ranks do not make the same call. The message names the ranks and what each has."""


def agree(
    comm: MPI.Comm, collective: str, arguments: Mapping[str, object], *, timeout: float = SECONDS
) -> None:
    """Check that all ranks make the same call. Collective over ``comm``.

    Runs in flight on the communicator go on meanwhile.

    Args:
        comm: an intracommunicator.
        collective: what is called.
        arguments: what must be the same on all ranks, by name: compared as text.
        timeout: seconds to wait for the other ranks.

    Raises:
        AgreementError: on all ranks alike: they differ, some rank has called `refuse`, or some did
            not come in time.
    """
    call = Call(collective, {name: shortened(str(value)) for name, value in arguments.items()})
    text = _rendezvous(comm, collective, timeout).exchange(call, timeout)
    if text:
        # Where calls differ, what does is told with the values of all ranks.
        own = "" if DISAGREE in text else f" (this rank's call: {call})"
        raise AgreementError(text + own)


def refuse(comm: MPI.Comm, collective: str, error: Exception, *, timeout: float = SECONDS) -> None:
    """Take part in the exchange of `agree` with an error, which the others then raise.

    Args:
        comm: an intracommunicator.
        collective: what was called.
        error: what is wrong with the call on this rank; it is for the caller to raise.
        timeout: seconds to wait for the other ranks.
    """
    call = Call(collective, {}, shortened(f"{type(error).__name__}: {error}"))
    _rendezvous(comm, collective, timeout).exchange(call, timeout)


def agree_counts(
    comm: MPI.Comm,
    collective: str,
    sendcounts: Sequence[int],
    recvcounts: Sequence[int],
    *,
    timeout: float = SECONDS,
) -> None:
    """Check that each rank expects what each other sends it. Collective, after `agree`.

    Args:
        comm: an intracommunicator.
        collective: what is called.
        sendcounts: elements that this rank sends to each rank.
        recvcounts: elements that this rank expects of each rank.
        timeout: seconds to wait for the other ranks.

    Raises:
        AgreementError: on all ranks: the message names a pair that differs.
    """
    rank = comm.Get_rank()
    theirs = np.empty(comm.Get_size(), np.int64)
    open_channel(comm).comm.Alltoall(np.array(sendcounts, np.int64), theirs)
    wrong = np.flatnonzero(theirs != np.array(recvcounts, np.int64))
    if not len(wrong):
        agree(comm, collective, {}, timeout=timeout)
        return
    source = int(wrong[0])
    error = AgreementError(
        f"recvcounts[{source}] is {recvcounts[source]} on rank {rank}, but sendcounts[{rank}] is "
        f"{theirs[source]} on rank {source}"
    )
    refuse(comm, collective, error, timeout=timeout)
    raise error


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function be raised on all ranks, where it is called with ``check=True``.

    The function takes ``comm`` and ``check`` as keywords, and calls `agree` once its arguments are
    found to be right. What it raises before that is told to the other ranks, and then raised.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if not kwargs.get("check"):
            return function(*args, **kwargs)
        comm: Any = kwargs.get("comm")
        # What the user has called: a plan and a variant go by the name of the collective.
        name = function.__name__.removeprefix("plan_").removesuffix("_reproducible")
        rendezvous = _rendezvous(comm, name, SECONDS)
        before = rendezvous.calls
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if rendezvous.calls == before:
                refuse(comm, name, error)
            raise

    return call


def _rendezvous(comm: MPI.Comm, collective: str, timeout: float) -> Rendezvous:
    try:
        channel = open_channel(comm, timeout)
    except TimeoutError as error:
        raise AgreementError(
            f"{collective}: {error}. As it is the first call on this communicator, it is not known "
            "who is missing"
        ) from None
    return channel.companion(Rendezvous, lambda: Rendezvous(channel))
