"""Arrays of other libraries, and whether MPI may be handed device memory."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import collectives
from collectives import device
from collectives.device import as_array, trial
from tests.collectives.fakedevice import Counts, FakeNamespace, on_fake_device

CPU, CUDA, PINNED, MANAGED, VULKAN = 1, 2, 3, 13, 7


class DLPack:
    """What another library's array offers: nothing but DLPack."""

    def __init__(self, host, kind=CPU, version=(1, 0)):
        self.host, self.kind, self.version = host, kind, version

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **kwargs):
        if self.version < (1, 0):
            kwargs.pop("max_version", None)
        return self.host.__dlpack__(**kwargs)


class Cuda:
    """What numba's device arrays offer: nothing but the CUDA array interface."""

    def __init__(self, host, read_only=False, **more):
        self.host = host
        interface = {**host.__array_interface__, "version": 3, **more}
        self.__cuda_array_interface__ = {**interface, "data": (host.ctypes.data, read_only)}


@pytest.fixture
def cupy(monkeypatch):
    """A module in the place of cupy, whose arrays are of the double over host memory."""
    xp = FakeNamespace(Counts())
    module = SimpleNamespace(
        asarray=lambda x: xp.wrap(x.host), from_dlpack=lambda x: xp.wrap(x.host)
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_arrays_of_numpy_and_of_devices_are_taken_as_they_are():
    host, (x, _) = np.zeros(3), on_fake_device(np.zeros(3))
    assert as_array("x", host) is host
    assert as_array("x", x) is x


@pytest.mark.parametrize("kind", [CPU, PINNED])
def test_host_memory_by_dlpack(kind):
    host = np.arange(6.0).reshape(2, 3)
    array = as_array("x", DLPack(host, kind))
    assert type(array) is np.ndarray
    array[1, 2] = 7
    assert host[1, 2] == 7
    assert as_array("x", DLPack(host[:, ::2], kind)).strides == (24, 16)


def test_host_memory_that_is_read_only():
    host = np.arange(3.0)
    host.flags.writeable = False
    assert not as_array("x", DLPack(host), writable=False).flags.writeable
    with pytest.raises(ValueError, match=r"recv: the DLPack is read-only.* \(rank 1 of 2\)"):
        as_array("recv", DLPack(host), where=" (rank 1 of 2)")
    # Before DLPack 1.0 nobody could say whether memory may be written to.
    old = DLPack(np.arange(3.0), version=(0, 8))
    assert as_array("x", old, writable=False).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="does not say that it may be written to"):
        as_array("x", old)


@pytest.mark.parametrize("kind", [CUDA, MANAGED])
def test_device_memory_by_dlpack(cupy, kind):
    host = np.arange(4.0)
    array = as_array("x", DLPack(host, kind))
    array[...] = 2.0
    assert host.tolist() == [2] * 4


def test_device_memory_by_the_cuda_array_interface(cupy):
    host = np.arange(4.0)
    array = as_array("x", Cuda(host))
    array[...] = 2.0
    assert host.tolist() == [2] * 4
    as_array("x", Cuda(host, read_only=True), writable=False)
    with pytest.raises(ValueError, match="x: is read-only"):
        as_array("x", Cuda(host, read_only=True))
    with pytest.raises(ValueError, match="x: is masked"):
        as_array("x", Cuda(host, mask=Cuda(host > 1)))


def test_device_memory_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    for x in (Cuda(np.zeros(3)), DLPack(np.zeros(3), CUDA)):
        with pytest.raises(TypeError, match=r"x: is a \w+ on a device, which takes cupy"):
            as_array("x", x)


def test_an_array_on_another_device(cupy):
    x, _ = on_fake_device(np.zeros(3))
    x.device = SimpleNamespace(id=1)
    with pytest.raises(ValueError, match=r"x: lies on device 1, .*cupy.cuda.Device\(1\).use\(\)"):
        as_array("x", x)


@pytest.mark.parametrize("wrong", [[1.0], 2.0, None, memoryview(b"ab")])
def test_what_is_no_array(wrong):
    with pytest.raises(TypeError, match=rf"x: is a {type(wrong).__name__}; needs a numpy or cupy"):
        as_array("x", wrong)


def test_what_cannot_be_read():
    with pytest.raises(TypeError, match=r"x: is a DLPack on device \(7, 0\) of DLPack"):
        as_array("x", DLPack(np.zeros(3), VULKAN))
    swapped = DLPack(np.zeros(3, np.dtype(float).newbyteorder()))
    with pytest.raises(TypeError, match=r"x: the DLPack cannot be read .*byte order"):
        as_array("x", swapped)

    class NeedsGradient:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("requires a gradient")

    with pytest.raises(TypeError, match=r"x: the NeedsGradient cannot be read .*gradient"):
        as_array("x", NeedsGradient())


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int64):
        tensor = torch.arange(4).to(dtype)
        array = as_array("x", tensor)
        assert f"torch.{array.dtype.name}" == str(dtype)
        array[1] = 3
        assert tensor.tolist() == [0, 3, 2, 3]
    with pytest.raises(TypeError, match=r"x: the Tensor cannot be read .*detach"):
        as_array("x", torch.ones(3, requires_grad=True))


@pytest.mark.ranks(1, 2)
def test_collectives_take_what_offers_dlpack(comm):
    """In place and out of place; what was given is given back."""
    p, r = comm.size, comm.rank
    total = sum(range(1, p + 1))

    def filled(n):
        return DLPack(np.full(n, r + 1.0))

    x, y = filled(4), filled(4)
    assert collectives.allreduce(x, comm=comm) is x
    assert collectives.allreduce(y, x, comm=comm) is x
    assert collectives.reduce(y, root=0, comm=comm) is y
    np.testing.assert_array_equal(x.host, total)
    assert collectives.bcast(x, comm=comm) is x
    part = collectives.reduce_scatter(filled(2 * p), comm=comm)
    np.testing.assert_array_equal(part, [total] * 2)
    x = filled(2)
    assert collectives.reduce_scatter(filled(2 * p), x, comm=comm) is x
    np.testing.assert_array_equal(x.host, total)
    whole = filled(2 * p)
    assert collectives.allgather(filled(2), whole, comm=comm) is whole
    np.testing.assert_array_equal(whole.host, np.repeat(np.arange(p) + 1.0, 2))
    assert collectives.allgather(whole, comm=comm) is whole
    back = filled(2 * p)
    assert collectives.alltoall(whole, back, comm=comm) is back
    np.testing.assert_array_equal(back.host, r + 1)
    whole = filled(2 * p)
    assert collectives.gather(filled(2), whole, comm=comm) is whole
    assert collectives.scatter(whole if r == 0 else None, x, comm=comm) is x
    np.testing.assert_array_equal(x.host, r + 1)
    y = filled(2)
    with collectives.plan_neighbor([x], [(r + 1) % p], [y], [(r - 1) % p], comm=comm) as plan:
        plan.run()
    np.testing.assert_array_equal(y.host, (r - 1) % p + 1)
    read_only = np.ones(3)
    read_only.flags.writeable = False
    out = filled(3)
    collectives.allreduce(DLPack(read_only), out, comm=comm)
    np.testing.assert_array_equal(out.host, p)
    with pytest.raises(ValueError, match="sendbuf: the DLPack is read-only"):
        collectives.allreduce(DLPack(read_only), comm=comm)


@pytest.mark.ranks(2)
def test_arrays_on_the_host_of_one_rank_and_on_the_device_of_another(comm):
    x = np.zeros(100_000) if comm.rank == 0 else on_fake_device(np.zeros(100_000))[0]
    where = "the host" if comm.rank == 0 else "a device"
    with pytest.raises(ValueError, match=rf"others on a device; here on {where} \(rank"):
        collectives.allreduce(x, comm=comm)


def test_before_mpi_is_started_nothing_is_known():
    code = "import mpi4py; mpi4py.rc.initialize = False;"
    code += "from collectives.device import mpi_is_cuda_aware as f; print(f());"
    code += "from mpi4py import MPI; MPI.Init(); print(f())"
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said == "False\nFalse\n"  # The MPIs from PyPI are not CUDA-aware.


@pytest.mark.parametrize("says", [0, 1])
def test_whom_a_library_answers(says):
    """By either function; a library with neither has said nothing."""

    def gpu_query_support(kind, found):
        assert kind == 0
        found._obj.value = says
        return 0

    for functions in (
        {"MPIX_Query_cuda_support": lambda: says},
        {"MPIX_GPU_query_support": gpu_query_support},
        {"MPIX_Query_cuda_support": lambda: says, "MPIX_GPU_query_support": lambda *_: 1 / 0},
    ):
        assert device._says(SimpleNamespace(**functions)) is bool(says)
    assert device._says(SimpleNamespace()) is False
    assert device._says(SimpleNamespace(MPIX_GPU_query_support=lambda kind, found: 16)) is False


@pytest.mark.ranks(1, 2, every_mpi=True)
def test_a_trial_is_a_job_of_its_own(comm):
    """A child of a rank comes to be, and sends itself what it has; here, from host memory."""
    assert not device.mpi_says_cuda_aware()
    assert trial("numpy") is True


@pytest.mark.ranks(2)
def test_a_trial_that_comes_to_nothing(comm, monkeypatch):
    """Where there is no device, or no time: nothing is known."""
    assert trial("no_such_module") is None
    assert trial("numpy", seconds=0.01) is None


@pytest.mark.parametrize(
    ("last_words", "right"),
    [
        ("print('ready'); print('right')", True),
        ("print('ready'); print('wrong')", False),
        ("print('ready', flush=True); os.kill(os.getpid(), signal.SIGSEGV)", False),
        ("print('ready', flush=True); time.sleep(60)", False),
        ("os.kill(os.getpid(), signal.SIGSEGV)", None),
        ("sys.exit('no device')", None),
        ("time.sleep(60)", None),
    ],
)
def test_how_a_trial_ends(monkeypatch, tmp_path, last_words, right):
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{last_words}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert trial(seconds=2) is right


@pytest.mark.parametrize(("verdict", "aware"), [(True, True), (None, True), (False, False)])
def test_what_mpi_says_and_what_a_trial_says(monkeypatch, verdict, aware):
    """A trial that could not be made does not count against what MPI says; it is made once."""
    tried = []
    monkeypatch.setattr(device, "mpi_says_cuda_aware", lambda: True)
    monkeypatch.setattr(device, "trial", lambda module: tried.append(module) or verdict)
    device._tried.cache_clear()
    try:
        if verdict is False:
            with pytest.warns(UserWarning, match="a trial with device memory failed"):
                assert not device.mpi_is_cuda_aware()
        assert device.mpi_is_cuda_aware() is aware
        assert device.mpi_is_cuda_aware() is aware
    finally:
        device._tried.cache_clear()
    assert tried == ["cupy"]
