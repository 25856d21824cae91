"""What each rank of `check_device` does: ``python -m tests.gpu.on_device PART...`` under mpiexec.

Each part is a function of a communicator and of the namespace whose arrays it works on: cupy, or
the double that stands for it where there is no device. It says in one line what it has done, and
raises where something is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time

import ml_dtypes
import numpy as np
from mpi4py import MPI

import collectives
from collectives import cuda_kernels, device
from collectives.bind import bind
from collectives.blocks import Split
from collectives.device import as_array
from collectives.executors import layout
from collectives.memory import host_empty
from collectives.step import Recv, Send
from hpcdl.compression.allreduce import CompressedAllreduce
from tests.compression.test_allreduce import CASES, limit, share, stream
from tests.gpu import checks

STAGED = {"staged": (False, False), "staged whole": (True, False)}
DIRECT = {"direct": (True, True)}


@contextlib.contextmanager
def travelling(way, staged_bytes=None):
    """Let messages travel one way, whatever MPI says."""
    before = {
        name: getattr(layout, name)
        for name in ("mpi_says_cuda_aware", "mpi_is_cuda_aware", "STAGED_BYTES")
    }
    says, is_aware = {**STAGED, **DIRECT}[way]
    layout.mpi_says_cuda_aware, layout.mpi_is_cuda_aware = (lambda: says), (lambda: is_aware)
    layout.STAGED_BYTES = staged_bytes or layout.STAGED_BYTES
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(layout, name, value)


def ways():
    """The ways that this MPI can go."""
    return [*STAGED, *(DIRECT if device.mpi_is_cuda_aware() else ())]


def maker(xp):
    return lambda array: xp.asarray(np.ascontiguousarray(array))


def what_there_is(comm, xp):
    """The device, and what is known of MPI."""
    library = " ".join(MPI.Get_library_version().split("\n")[0].split())[:60]
    says, tried = device.mpi_says_cuda_aware(), device.trial(xp.__name__)
    if xp.__name__ == "cupy":
        name = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)["name"].decode()
        versions = f"cupy {xp.__version__}, CUDA {xp.cuda.runtime.runtimeGetVersion()}"
    else:
        name, versions = "no device", "a double over host memory"
    assert says or not device.mpi_is_cuda_aware()
    return (
        f"{name}; {versions}; {library}; MPI says CUDA-aware: {says}; a trial of it: {tried}; "
        f"so device memory goes {'direct' if device.mpi_is_cuda_aware() else 'staged'}"
    )


def every_algorithm(comm, xp):
    """Each algorithm of each collective, in place and out of place, at awkward lengths."""
    done = 0
    for way in ways():
        for collective, algorithm in checks.algorithms():
            for staged_bytes, n in ((64, 1), (64, comm.size + 1), (1 << 10, 1031)):
                with travelling(way, staged_bytes):
                    checks.CHECKS[collective](comm, algorithm, maker(xp), n)
                done += 1
        with travelling(way, 64):
            for n in (0, 1, 13):
                checks.alltoall_uneven(comm, maker(xp), n)
                checks.neighbor(comm, maker(xp), n)
                checks.plans_in_flight(comm, maker(xp), n)
                done += 3
    return f"{done} cases right, {' and '.join(ways())}"


def every_dtype(comm, xp):
    """All collectives in each dtype that reductions take."""
    names = []
    for dtype in checks.DTYPES:
        try:
            maker(xp)(np.zeros(1, dtype))
        except (TypeError, ValueError):  # before cupy 14 there is no bfloat16
            assert dtype is ml_dtypes.bfloat16
            continue
        names.append(np.dtype(dtype).name)
        for collective in checks.CHECKS:
            checks.CHECKS[collective](comm, "auto", maker(xp), 257, dtype)
    return f"{', '.join(names)}"


def kernels(comm, xp):
    """The sums of 16-bit floats against those of the host: all values with each of some."""
    words = np.arange(1 << 16, dtype=np.uint16)
    rng = np.random.default_rng(comm.rank)
    some = [0x0001, 0x3C00, 0x7BFF, 0x8001, *rng.integers(0, 1 << 16, 28)]
    names = 0
    for dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
        try:
            first = maker(xp)(words.view(dtype))
        except (TypeError, ValueError):
            assert dtype == ml_dtypes.bfloat16
            continue
        for op in (collectives.SUM, collectives.PROD, collectives.MIN, collectives.MAX):
            function = {"SUM": np.add, "PROD": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
            for word in some:
                second = np.full(words.size, word, np.uint16).view(dtype)
                out = maker(xp)(second)
                with np.errstate(all="ignore"):
                    cuda_kernels.reduce(op, xp, first, out, out)
                    want = function[op.name](words.view(dtype), second).astype(np.float32)
                    got = checks.host(out).astype(np.float32)
                np.testing.assert_array_equal(got, want)
            names += 1
    return f"{names} kernels, {len(some)} x 65536 pairs each"


def streams(comm, xp, elements=1 << 26):
    """A run waits for the work that is queued on the current stream, and only that."""
    for way in ways():
        with travelling(way):
            x, y = xp.zeros(1 << 20, xp.float32), xp.ones(elements, xp.float32)
            side = xp.cuda.Stream(non_blocking=True)
            with collectives.plan_allreduce(x, comm=comm) as plan, side:
                for step in range(3):
                    for _ in range(20):
                        y += xp.sin(y)
                    x[...] = float(comm.rank + step)
                    plan.run()
                    got = checks.host(x)
                    want = sum(range(comm.size)) + comm.size * step
                    np.testing.assert_array_equal(got, np.float32(want))
    return f"3 runs behind a full stream, {' and '.join(ways())}"


def staging(comm, xp, largest=24 << 20):
    """Messages around the length of a part, and many parts; pinned memory stays bounded."""
    part = 1 << 16
    for nbytes in (part - 1, part, part + 1, 2 * part, 3 * part + 5, 8 * part):
        with travelling("staged", part):
            x = maker(xp)(np.full(nbytes, comm.rank, np.uint8))
            collectives.bcast(x, comm.size - 1, comm=comm)
            np.testing.assert_array_equal(checks.host(x), comm.size - 1)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with travelling("staged"):
        x = maker(xp)(np.full(2 * largest, comm.rank, np.uint8))
        with bind([[Send(right, 0), Recv(left, 1)]], Split(x, 2), comm) as plan:
            pinned = plan.scratch_bytes
            for _ in range(3):
                plan.run()
        np.testing.assert_array_equal(checks.host(x[largest:]), left)
        assert comm.size == 1 or pinned <= 2 * 2 * layout.STAGED_BYTES, pinned
    return f"parts of 64 KiB and {layout.STAGED_BYTES >> 20} MiB; {pinned >> 20} MiB pinned"


def other_libraries(comm, xp):
    """Arrays that offer DLPack or the CUDA array interface only; tensors where torch is there."""

    class Cuda:
        def __init__(self, x):
            self.__cuda_array_interface__ = x.__cuda_array_interface__
            self.x = x

    class DLPack:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **kwargs):
            return self.x.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    tried = []
    want = np.full(100, sum(range(1, comm.size + 1)), np.float32)
    for wrap in (Cuda, DLPack):
        x = xp.full(100, comm.rank + 1, xp.float32)
        collectives.allreduce(as_array("x", wrap(x)), comm=comm)
        checks.equal(x, want)
        tried.append(wrap.__name__)
    with contextlib.suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            tensor = torch.full((100,), comm.rank + 1.0, device="cuda")
            collectives.allreduce(as_array("x", tensor), comm=comm)
            np.testing.assert_array_equal(tensor.cpu().numpy(), want)
            half = torch.full((100,), comm.rank + 1.0, device="cuda", dtype=torch.bfloat16)
            collectives.allreduce(as_array("x", half), comm=comm)
            np.testing.assert_array_equal(half.float().cpu().numpy(), want)
            tried.append(f"torch {torch.__version__}")
    return ", ".join(tried)


def codecs(comm, xp):
    """Each codec on each route: as near the sum as it says, and the same bits on all ranks."""
    for codec, route in CASES:
        for n, dtype in ((0, np.float32), (3, np.float64), (100_003, np.float32)):
            shares = [share(n, rank, dtype=dtype) for rank in range(comm.size)]
            x = maker(xp)(shares[comm.rank])
            with CompressedAllreduce(codec, x, comm, route=route) as allreduce:
                allreduce.reduce(stream(comm))
            got = checks.host(x)
            case = f"{codec} by {route}, {n} elements of {np.dtype(dtype)}"
            assert len(set(comm.allgather(got.tobytes()))) == 1, case
            total = np.sum(np.array(shares, np.float64), axis=0)
            assert (np.abs(got - total) <= limit(codec, route, shares)).all(), case
    return f"{len(CASES)} codecs with a route each"


def timings(comm, xp, mebibytes=(1, 16, 64), runs=7):
    """Sums of float32 against copies of the whole array around the library's own call."""
    rows = []
    for mib in mebibytes:
        n = (mib << 20) // 4
        x = xp.zeros(n, xp.float32)
        pinned = host_empty(x, mib << 20).view(np.float32)

        def around_the_library(x=x, pinned=pinned):
            x.get(out=pinned)
            comm.Allreduce(MPI.IN_PLACE, pinned, MPI.SUM)
            x.set(pinned)
            xp.cuda.get_current_stream().synchronize()

        def of_the_library(x=x):
            xp.cuda.get_current_stream().synchronize()
            comm.Allreduce(MPI.IN_PLACE, x, MPI.SUM)

        todo = {"library, copies around it": around_the_library}
        if device.mpi_is_cuda_aware():
            todo["library, direct"] = of_the_library
        with contextlib.ExitStack() as stack:
            for way in ways():
                with travelling(way):
                    plan = stack.enter_context(collectives.plan_allreduce(x, comm=comm))

                def ours(plan=plan):
                    plan.run()
                    xp.cuda.get_current_stream().synchronize()

                todo[f"ours, {way}"] = ours
            seconds = {name: [] for name in todo}
            for run in range(runs + 1):
                for name, function in todo.items():
                    comm.Barrier()
                    begin = time.perf_counter()
                    function()
                    took = comm.allreduce(time.perf_counter() - begin, MPI.MAX)
                    if run:
                        seconds[name].append(took)
        for name, took in seconds.items():
            rows.append((mib, name, 1e3 * statistics.median(took)))
    return "\n".join(["ms"] + [f"    {mib:4d} MiB  {name:28s} {ms:9.3f}" for mib, name, ms in rows])


PARTS = {
    part.__name__: part
    for part in (
        what_there_is,
        every_algorithm,
        every_dtype,
        kernels,
        streams,
        staging,
        other_libraries,
        codecs,
        timings,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--result", required=True, help="a file for what rank 0 has to say")
    args = parser.parse_args()
    import cupy

    comm = MPI.COMM_WORLD
    with collectives.abort_on_exception(comm):
        for name in args.parts:
            begin = time.perf_counter()
            said = PARTS[name](comm, cupy)
            comm.Barrier()
            if comm.rank == 0:
                line = {"part": name, "said": said, "seconds": time.perf_counter() - begin}
                with open(args.result, "a") as result:
                    result.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
