"""Device buffers, as far as they can be checked without a device."""

import subprocess
import sys

import numpy as np
import pytest

import collectives
from collectives import memory
from collectives.bind import bind
from collectives.blocks import Regions
from collectives.step import Recv, Reduce, Send
from tests.collectives.fakedevice import on_fake_device


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("algorithm", ["ring", "tree", "recursive_doubling", "rabenseifner"])
def test_allreduce_of_device_arrays(comm, monkeypatch, algorithm, aware):
    monkeypatch.setattr(plan, "mpi_is_cuda_aware", lambda: aware)
    p = comm.size
    for op, f in (("SUM", np.add), ("PROD", np.multiply), ("MIN", np.minimum)):
        for n in (1, p, 1001):
            parts = [(np.arange(n) + r) % 3 + 1.0 for r in range(p)]
            x, counts = on_fake_device(parts[comm.rank].astype(np.float32))
            got = collectives.allreduce(
                x, op=getattr(collectives, op), comm=comm, algorithm=algorithm
            )
            assert got is x
            want = parts[0]
            for part in parts[1:]:
                want = f(want, part)
            np.testing.assert_array_equal(x.host, want)
            if p > 1 and aware:
                assert counts.down == 0
                assert counts.synchronized > 0
            elif p > 1:
                assert counts.down > 0
                assert counts.up > 0


@pytest.mark.ranks(2, 3)
def test_the_other_collectives_of_device_arrays(comm, monkeypatch):
    p, r = comm.size, comm.rank
    for aware in (False, True):
        monkeypatch.setattr(plan, "mpi_is_cuda_aware", lambda aware=aware: aware)
        x, _ = on_fake_device(np.arange(7.0) * (r + 1))
        collectives.bcast(x, p - 1, comm=comm)
        np.testing.assert_array_equal(x.host, np.arange(7.0) * p)
        whole = np.zeros(2 * p)
        whole[2 * r : 2 * r + 2] = r + 1
        x, _ = on_fake_device(whole)
        collectives.allgather(x, comm=comm)
        np.testing.assert_array_equal(x.host, np.repeat(np.arange(p) + 1, 2))
        send, _ = on_fake_device(np.arange(p) + 10.0 * r)
        recv = send.xp.empty(p, np.float64)
        collectives.alltoall(send, recv, comm=comm)
        np.testing.assert_array_equal(recv.host, 10.0 * np.arange(p) + r)
        x, _ = on_fake_device(np.arange(2.0 * p))
        part = collectives.reduce_scatter(x, comm=comm)
        np.testing.assert_array_equal(part.host, np.array([2.0 * r, 2.0 * r + 1]) * p)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("device", [False, True])
def test_regions_that_are_not_contiguous_are_packed(comm, device):
    base = np.arange(24.0).reshape(2, 3, 4) + 100 * comm.rank
    x = on_fake_device(base)[0] if device else base.copy()
    # Columns 0 are sent; columns 3 are stored, columns 1 accumulated.
    blocks = Regions([x[..., 0], x[..., 3], x[..., 1]])
    peer = 1 - comm.rank
    rounds = [[Send(peer, 0), Recv(peer, 1)], [Send(peer, 0), Reduce(peer, 2)]]
    with bind(rounds, blocks, comm) as p:
        p.run()
    other = np.arange(24.0).reshape(2, 3, 4) + 100 * peer
    want = base.copy()
    want[..., 3] = other[..., 0]
    want[..., 1] += other[..., 0]
    np.testing.assert_array_equal(x.host if device else x, want)


def test_without_an_mpi_that_says_so_device_memory_is_not_handed_over():
    code = "from collectives.memory import mpi_is_cuda_aware as f; print(f());"
    code += "from mpi4py import MPI; print(f())"
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    # The MPIs from PyPI are not CUDA-aware; before MPI is started nothing is known.
    assert said == "False\nFalse\n"


@pytest.mark.ranks(1)
def test_what_is_no_array_is_refused(comm):
    with pytest.raises(TypeError, match="neither a numpy nor a cupy array"):
        memory.namespace([1.0])
    with pytest.raises(TypeError, match="is a list"):
        collectives.bcast([1], comm=comm)
