"""Codecs and routes on device arrays, through a double over host memory."""

import numpy as np
import pytest

from collectives.executors import layout
from hpcdl.compression import ErrorFeedback, Float16, TopK
from hpcdl.compression.allreduce import CompressedAllreduce
from tests.collectives.fakedevice import Counts, FakeArray, FakeNamespace
from tests.compression.cases import CODECS_TO_TEST
from tests.compression.test_allreduce import CASES, share, stream, vectors


@pytest.fixture
def device():
    return FakeNamespace(Counts())


@pytest.mark.parametrize("codec", CODECS_TO_TEST, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_codec_gives_the_same_bits_on_a_device(device, codec, dtype):
    for n in (0, 1, 7, 1000):
        x = np.random.default_rng(n).standard_normal(n).astype(dtype)
        if n > 7:
            x[[3, 5]] = np.inf, np.nan
        payloads, outs = [], []
        for xp in (np, device):
            state = codec.init(n, dtype, xp)
            out = xp.zeros(n, dtype)
            rng = np.random.default_rng(3)
            for _ in range(2):
                payload, state = codec.encode(xp.asarray(x), state, rng)
                codec.decode(payload, out)
            payloads.append(payload)
            outs.append(out)
        assert type(payloads[1]) is FakeArray
        assert type(outs[1]) is FakeArray
        np.testing.assert_array_equal(payloads[1].get(), payloads[0])
        np.testing.assert_array_equal(outs[1].get(), outs[0])


@pytest.mark.ranks(1, 2, 3, 4)
@pytest.mark.parametrize("aware", [False, True], ids=["staged", "direct"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_routes_give_the_same_bits_on_a_device(comm, monkeypatch, device, case, aware):
    monkeypatch.setattr(layout, "mpi_says_cuda_aware", lambda: aware)
    monkeypatch.setattr(layout, "mpi_is_cuda_aware", lambda: aware)
    monkeypatch.setattr(layout, "STAGED_BYTES", 128)
    codec, route = case
    for n, dtype in vectors(comm.size):
        results = []
        for xp in (np, device):
            x = xp.zeros(n, dtype)
            with CompressedAllreduce(codec, x, comm, route=route, algorithm="ring") as allreduce:
                for step in range(3):
                    x[...] = xp.asarray(share(n, comm.rank, step, dtype))
                    allreduce.reduce(stream(comm, step))
                state = {k: v if xp is np else v.get() for k, v in allreduce.state.items()}
            results.append((x if xp is np else x.get(), state))
        (host, host_state), (got, state) = results
        np.testing.assert_array_equal(got, host)
        assert state.keys() == host_state.keys()
        for name, array in state.items():
            np.testing.assert_array_equal(array, host_state[name])


@pytest.mark.ranks(2)
def test_a_state_on_a_device_is_saved_and_restored_on_any(comm, device):
    for xp in (np, device):
        x = xp.zeros(100, np.float64)
        with CompressedAllreduce(ErrorFeedback(TopK(0.1)), x, comm, route="gather") as allreduce:
            allreduce.restore({"residual": np.arange(100.0)})
            allreduce.reduce(stream(comm))
            host = x if xp is np else x.get()
            assert np.flatnonzero(host).tolist() == list(range(90, 100))
            with pytest.raises(ValueError, match="arrays: have shapes"):
                allreduce.restore({"residual": np.zeros(9)})


@pytest.mark.ranks(2)
def test_routes_that_are_chosen(comm, device):
    for codec in (None, Float16(), TopK(0.01)):
        with CompressedAllreduce(codec, device.zeros(1000, np.float32), comm) as allreduce:
            made = allreduce.route
        with CompressedAllreduce(codec, np.zeros(1000, np.float32), comm) as allreduce:
            assert allreduce.route == made
