"""A sum whose bits do not depend on the number of ranks, nor on who holds which summand.

The same summands give the same bits however they are spread over ranks, in whatever order, on
whatever algorithm. First the ranks find the largest exponent of each element; then they add
integers, which is exact; then each rounds the sum once (see `collectives.fixed_point`; Demmel and
Nguyen 2013, 2015).

The price: two allreduces instead of one; bytes times 3 for float32, 2.5 for float64, 6 for float16
and bfloat16; and the conversions, some 10 passes of numpy over the data.

What one gets besides: of N summands of one element, whose exact sum is S and whose largest
magnitude is M, the result differs from S by no more than half a unit in its last place and
N M 2^-84 for float64, N M 2^-42 for the others. Infinities and NaN give what IEEE 754 gives,
though always numpy's NaN; a sum of zero is always +0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from collectives.agreement import agree, checked
from collectives.arguments import at, check_buffer
from collectives.channel import harmless
from collectives.combined import CombinedPlan, Part
from collectives.fixed_point import FOLDS, SUMMANDS, add, raise_exponents, value
from collectives.memory import flat
from collectives.op import MAX, SUM
from collectives.options import settings_of
from collectives.plan import Plan
from collectives.plans import plan_allreduce

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from collectives.options import Options


@checked
def plan_allreduce_reproducible(
    sendbuf: Any, recvbuf: Any = None, *, comm: MPI.Comm, **options: Unpack[Options]
) -> Plan:
    """Plan a sum over all ranks, elementwise, whose bits do not depend on the ranks.

    Args:
        sendbuf: C-contiguous numpy array of float16, bfloat16, float32 or float64. Of the shape of
            ``recvbuf``: one summand of each element. Of shape ``(k, *recvbuf.shape)``: k summands;
            k may differ between ranks, and may be 0. All ranks together may have 2^20.
        recvbuf: C-contiguous array of the same dtype, of one shape on all ranks; None: the result
            is stored in ``sendbuf``, which is one summand.
        comm: the communicator.
        **options: see `collectives.options.Options`; they hold for both allreduces.

    Raises:
        TypeError: not a numpy array, or of another dtype.
        ValueError: not contiguous, read-only, shapes that do not fit, memory that overlaps, too
            many summands, or no such algorithm or executor. Too many summands of all ranks
            together are found when the run is finished.
    """
    rows, out = _rows(sendbuf, recvbuf, comm)
    inner = options.copy()
    if inner.pop("check", False):
        settings = settings_of(inner)
        call: dict[str, object] = {"dtype": out.dtype}
        call["shape"] = (sendbuf if recvbuf is None else recvbuf).shape
        call |= {"op": SUM.description, "deterministic": "ranks"} | settings.compared
        agree(comm, "allreduce", call)
    folds, n = FOLDS[out.dtype.name], out.size
    exponents = np.zeros(n, np.int32)
    integers = np.zeros(folds * n + 1, np.int64)
    sums, summands = integers[:-1].reshape(folds, n), integers[-1:]

    def find_exponents() -> None:
        exponents[...] = 0
        for row in rows:
            raise_exponents(row, exponents)

    def convert() -> None:
        integers[...] = 0
        for row in rows:
            add(row, exponents, sums)
        summands[0] = len(rows)

    def round_back() -> None:
        if summands[0] > SUMMANDS:
            error = ValueError(
                f"sendbuf: all ranks together have {summands[0]} summands of each element; "
                f"{SUMMANDS} are the most that can be added"
            )
            raise harmless(error)  # on all ranks
        value(sums, exponents, out)

    parts = [
        Part(plan_allreduce(exponents, MAX, comm=comm, **inner), find_exponents),
        Part(plan_allreduce(integers, SUM, comm=comm, **inner), convert, round_back),
    ]
    plan = CombinedPlan(parts, comm, overlap=False)
    plan.scratch_bytes += exponents.nbytes + integers.nbytes
    return plan


def allreduce_reproducible(
    sendbuf: Any, recvbuf: Any = None, *, comm: MPI.Comm, **options: Unpack[Options]
) -> Any:
    """Add over all ranks, elementwise; the bits of the result do not depend on the ranks.

    Args and errors as for `plan_allreduce_reproducible`; ``sendbuf`` may have any strides where
    ``recvbuf`` is given.

    Returns:
        ``recvbuf``, or ``sendbuf`` where that is None.
    """
    source = sendbuf
    if recvbuf is not None and isinstance(sendbuf, np.ndarray):
        source = np.ascontiguousarray(sendbuf).reshape(sendbuf.shape)
    with plan_allreduce_reproducible(source, recvbuf, comm=comm, **options) as plan:
        plan.run()
    return sendbuf if recvbuf is None else recvbuf


def _rows(sendbuf: Any, recvbuf: Any, comm: MPI.Comm) -> tuple[list[Any], Any]:
    """Return the summands of this rank, each as a vector, and the vector for the result."""
    given = {"sendbuf": sendbuf} if recvbuf is None else {"sendbuf": sendbuf, "recvbuf": recvbuf}
    for name, array in given.items():
        check_buffer(name, array, comm, writable=array is not sendbuf or recvbuf is None)
        if not isinstance(array, np.ndarray) or array.dtype.name not in FOLDS:
            raise TypeError(
                f"{name}: is a {type(array).__name__} of {array.dtype}; a reproducible sum takes "
                f"numpy arrays of {', '.join(FOLDS)}{at(comm)}"
            )
        if not array.dtype.isnative:
            raise TypeError(f"{name}: is not in native byte order{at(comm)}")
    if recvbuf is None:
        return [flat(sendbuf)], flat(sendbuf)
    if sendbuf.dtype != recvbuf.dtype:
        raise TypeError(
            f"recvbuf: has dtype {recvbuf.dtype}, sendbuf {sendbuf.dtype}; "
            f"they must agree{at(comm)}"
        )
    if np.may_share_memory(sendbuf, recvbuf):
        raise ValueError(f"recvbuf: overlaps sendbuf; leave it out to work in place{at(comm)}")
    if sendbuf.shape == recvbuf.shape:
        return [flat(sendbuf)], flat(recvbuf)
    if sendbuf.ndim == recvbuf.ndim + 1 and sendbuf.shape[1:] == recvbuf.shape:
        if len(sendbuf) > SUMMANDS:
            raise ValueError(
                f"sendbuf: has {len(sendbuf)} summands; needs at most {SUMMANDS}{at(comm)}"
            )
        return list(sendbuf.reshape(len(sendbuf), recvbuf.size)), flat(recvbuf)
    raise ValueError(
        f"sendbuf: has shape {sendbuf.shape}; needs {recvbuf.shape}, as recvbuf has, or "
        f"(k, *{recvbuf.shape}){at(comm)}"
    )
