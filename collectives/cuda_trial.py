"""Hand device memory to MPI in a process that may die of it: ``python -m collectives.cuda_trial``.

It is a job of one rank of its own. What it says, a line each: "ready" when MPI and the device have
been started, then "right" or "wrong". A library that is not CUDA-aware reads device memory as if it
were the host's, and the process ends at that with a signal.
"""

from __future__ import annotations

import importlib
import sys

SIZES = (8, 1 << 22)
"""Bytes: one message that MPI sends at once, and one that it agrees on first."""


def main(module: str = "cupy") -> None:
    """Send arrays to this process itself and compare.

    Args:
        module: whose arrays, "cupy" or, to try the trial, "numpy".
    """
    xp = importlib.import_module(module)
    pairs = [(xp.arange(n).astype(xp.uint8), xp.zeros(n, xp.uint8)) for n in SIZES]
    if module != "numpy":
        xp.cuda.get_current_stream().synchronize()
    from mpi4py import MPI

    print("ready", flush=True)
    for send, recv in pairs:
        request = MPI.COMM_SELF.Irecv([recv, MPI.BYTE], 0)
        MPI.COMM_SELF.Send([send, MPI.BYTE], 0)
        request.Wait()
    print("right" if all(bool((a == b).all()) for a, b in pairs) else "wrong", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
