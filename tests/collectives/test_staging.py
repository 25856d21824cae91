"""Collectives on device arrays, as far as they can be checked without a device."""

import numpy as np
import pytest

import collectives
from collectives.bind import bind
from collectives.blocks import Regions, Split
from collectives.executors import layout
from collectives.step import Recv, Reduce, Send, Zero
from tests.collectives.fakedevice import Counts, Event, FakeNamespace, on_fake_device
from tests.gpu import checks

WAYS = {
    "staged": (False, False),
    "direct": (True, True),
    "staged after a trial": (True, False),  # MPI says that it is CUDA-aware, and a trial failed
}
every_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def travel(monkeypatch):
    """Set how messages travel, and how long their staged parts may be."""

    def choose(way, staged_bytes=64):
        says, is_aware = WAYS[way]
        monkeypatch.setattr(layout, "mpi_says_cuda_aware", lambda: says)
        monkeypatch.setattr(layout, "mpi_is_cuda_aware", lambda: is_aware)
        monkeypatch.setattr(layout, "STAGED_BYTES", staged_bytes)

    return choose


@pytest.fixture
def device():
    return FakeNamespace(Counts())


def made_by(device):
    """As a program makes device arrays: the copy is done when it goes on."""
    return lambda array: device.asarray(np.ascontiguousarray(array))


@pytest.mark.ranks(1, 2, 3, 4)
@every_way
@pytest.mark.parametrize("collective", checks.CHECKS)
def test_every_algorithm(comm, travel, device, collective, way):
    make = made_by(device)
    for name, algorithm in checks.algorithms():
        if name != collective:
            continue
        for staged_bytes, n in ((64, 0), (64, comm.size + 1), (24, 131)):
            travel(way, staged_bytes)
            checks.CHECKS[collective](comm, algorithm, make, n)


@pytest.mark.ranks(1, 2, 3, 4, every_mpi=True)
@every_way
def test_what_has_no_choice_of_algorithms(comm, travel, device, way):
    travel(way)
    for n in (0, 1, 13):
        checks.alltoall_uneven(comm, made_by(device), n)
        checks.neighbor(comm, made_by(device), n)
        checks.plans_in_flight(comm, made_by(device), n)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("dtype", checks.DTYPES)
def test_every_dtype(comm, travel, device, dtype):
    travel("staged")
    for collective in checks.CHECKS:
        checks.CHECKS[collective](comm, "auto", made_by(device), 50, dtype)


@pytest.mark.ranks(2)
@every_way
def test_copies_and_waits(comm, travel, way):
    """Staged messages copy each part once, and the host never waits for the device."""
    travel(way, 80)
    x, counts = on_fake_device(np.full(100, 1.0 + comm.rank))
    collectives.bcast(x, comm=comm)
    np.testing.assert_array_equal(x.host, 1.0)
    parts = {"staged": 10, "staged after a trial": 1, "direct": 0}[way]
    assert (counts.down, counts.up) == ((parts, 0) if comm.rank == 0 else (0, parts))
    assert (counts.synchronized > 0) == (way == "direct")


@pytest.mark.ranks(2)
def test_memory_is_bounded(comm, travel, device):
    """Two parts of each message, however long it is; messages that are shorter take less."""
    travel("staged", 1000)
    x = device.empty(10**6, np.uint8)
    peer = 1 - comm.rank
    with bind([[Send(peer, 0), Recv(peer, 1)]], Split(x, 2), comm) as plan:
        assert 4000 <= plan.scratch_bytes <= 4500
        assert plan.messages == 500
        assert plan.bytes_sent == 500_000
    with bind([[Send(peer, 0), Recv(peer, 1)]], Split(x[:80], 2), comm) as plan:
        assert 80 <= plan.scratch_bytes <= 128


@pytest.mark.ranks(2)
@every_way
def test_the_next_part_is_copied_while_one_is_on_its_way(comm, travel, device, way):
    """Before the receiver has taken anything, the sender has copied as much as has room."""
    travel(way, 1 << 20)
    x = device.asarray(np.full(1 << 21, comm.rank, np.uint16))
    if comm.rank == 0:
        with bind([[Send(1, 0)]], Split(x, 1), comm) as plan:
            plan.start()
            for _ in range(10):
                plan.test()
            assert device.counts.down == {"staged": 2, "direct": 0}.get(way, 1)
            comm.Barrier()
            plan.wait()
            assert device.counts.down == {"staged": 4, "direct": 0}.get(way, 1)
    else:
        with bind([[Recv(0, 0)]], Split(x, 1), comm) as plan:
            comm.Barrier()
            plan.run()
        np.testing.assert_array_equal(x.host, 0)


@pytest.mark.ranks(2)
def test_a_buffer_is_not_used_again_before_its_copy_is_done(comm, travel, device, monkeypatch):
    travel("staged", 16)
    x = device.asarray(np.arange(80, dtype=np.uint8) * (comm.rank + 1))
    if comm.rank == 0:
        with bind([[Send(1, 0)]], Split(x, 1), comm) as plan:
            plan.run()
    else:
        with bind([[Recv(0, 0)]], Split(x, 1), comm) as plan, monkeypatch.context() as slow:
            slow.setattr(Event, "done", False)
            plan.start()
            for _ in range(100):
                assert not plan.test()
                assert device.counts.up <= 1 + 2
            slow.undo()
            plan.wait()
        np.testing.assert_array_equal(x.host, np.arange(80))


@pytest.mark.ranks(2)
@every_way
def test_work_on_another_stream_is_waited_for(comm, travel, device, way):
    """The stream that is current when a run starts, whichever it was before."""
    travel(way)
    with collectives.plan_allreduce(device.empty(40, np.float64), comm=comm):
        pass
    x = device.empty(40, np.float64)
    with device.cuda.Stream(), collectives.plan_allreduce(x, comm=comm) as plan:
        x[...] = 1.0 + comm.rank
        plan.run()
    np.testing.assert_array_equal(x.host, 3.0)


@pytest.mark.ranks(2)
def test_a_copy_that_does_not_wait_is_noticed(comm, device):
    """The double itself: it would hide nothing."""
    x, stream, host = device.empty(4, np.uint8), device.cuda.Stream(), np.zeros(4, np.uint8)
    x[...] = 5
    with pytest.raises(AssertionError, match="does not wait"):
        x.get(stream=stream, out=host, blocking=False)
    stream.wait_event(device.current.record())
    x.get(stream=stream, out=host, blocking=False)
    event = stream.record()
    assert not event.done
    assert host.tolist() == [0] * 4
    assert event.done
    assert host.tolist() == [5] * 4
    with pytest.raises(TypeError, match="Unsupported type"):
        x += host


@pytest.mark.ranks(2)
@every_way
@pytest.mark.parametrize("on", ["host", "device"])
def test_regions_that_are_not_contiguous_are_packed(comm, travel, on, way):
    travel(way)
    base = np.arange(24.0).reshape(2, 3, 4) + 100 * comm.rank
    x = on_fake_device(base)[0] if on == "device" else base.copy()
    # Columns 0 and 2 are sent; columns 3 are stored, columns 1 accumulated, columns 2 cleared.
    blocks = Regions([x[..., 0], x[..., 3], x[..., 1], x[..., 2]])
    peer = 1 - comm.rank
    rounds = [
        [Send(peer, 0), Send(peer, 3), Zero(3), Recv(peer, 1), Reduce(peer, 2)],
        [Send(peer, 1), Reduce(peer, 2)],
    ]
    with bind(rounds, blocks, comm) as plan:
        plan.run()
    other = np.arange(24.0).reshape(2, 3, 4) + 100 * peer
    want = base.copy()
    want[..., 3] = other[..., 0]
    want[..., 1] += other[..., 2] + base[..., 0]
    want[..., 2] = 0
    np.testing.assert_array_equal(x.host if on == "device" else x, want)


@pytest.mark.ranks(1)
def test_an_array_that_is_not_contiguous_is_refused_by_name(comm, device):
    x = device.empty((4, 6), np.float64)
    with pytest.raises(ValueError, match=r"sendbuf: has shape \(4, 3\) and strides \(48, 16\)"):
        collectives.allreduce(x[:, ::2], comm=comm)
    with pytest.raises(ValueError, match="buffer: has shape"):
        collectives.plan_bcast(x[:, :3], comm=comm)
    with pytest.raises(TypeError, match="recvbuf: is a ndarray, sendbuf a FakeArray"):
        collectives.allreduce(x, np.zeros((4, 6)), comm=comm)


@pytest.mark.ranks(1, 2)
@every_way
def test_a_closed_plan_has_freed_its_requests(comm, travel, device, way):
    travel(way)
    plan = collectives.plan_allreduce(device.empty(100, np.float64), comm=comm)
    plan.start()
    assert plan.waiting_for() in ([], [1 - comm.rank])
    plan.close()
    plan.close()
    with pytest.raises(RuntimeError, match="closed"):
        plan.start()
