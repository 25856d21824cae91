"""The kernels for a device: compiled by NVRTC, which needs none, and run as C on the host."""

import ctypes
import importlib.metadata
import itertools
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from collectives import MAX, MIN, PROD, SUM, Op, cuda_kernels
from tests.collectives.fakedevice import on_fake_device

OPS = {"SUM": np.add, "PROD": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(scope="module")
def nvrtc():
    """The library of NVIDIA's wheel."""
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc-cu12") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("NVRTC is not installed: pip install 'hpcdl[cuda]'")
    (path,) = (f for f in files if f.name == "libnvrtc.so.12")
    return ctypes.CDLL(str(path.locate()))


def compiled(nvrtc, source, arch):
    """The machine code of a source; no kernel is launched, so no device is needed."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
    assert made == 0
    options = [f"--gpu-architecture=sm_{arch}".encode(), b"-std=c++17"]
    failed = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert not failed, log.value.decode()
    assert not log.value, log.value.decode()
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    code = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, code) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


@pytest.mark.parametrize("arch", [75, 80, 90, 100])
def test_nvrtc_compiles_each_kernel(nvrtc, arch):
    code = compiled(nvrtc, cuda_kernels.SOURCE, arch)
    assert code.startswith(b"\x7fELF")
    assert len(cuda_kernels.NAMES) == len(OPS) * len(DTYPES)
    for name in cuda_kernels.NAMES:
        assert f".text.{name}\0".encode() in code


def test_an_error_in_a_kernel_is_noticed(nvrtc):
    with pytest.raises(AssertionError, match="identifier"):
        compiled(nvrtc, cuda_kernels.SOURCE.replace("a + b", "a + c"), 80)


HOST = """
#include <string.h>
#define __device__ static
#define __forceinline__ inline
#define __global__
static struct { unsigned x; } gridDim = {3}, blockDim = {2}, blockIdx, threadIdx;
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static float half_to_float(unsigned short x) { _Float16 h; memcpy(&h, &x, 2); return h; }
static unsigned short float_to_half(float x) {
    _Float16 h = x; unsigned short y; memcpy(&y, &h, 2); return y;
}
"""
LAUNCH = """
void run_{name}(void* a, void* b, void* out, unsigned long long n) {{
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {name}(a, b, out, n);
}}
"""


@pytest.fixture(scope="module")
def on_the_host(tmp_path_factory):
    """The kernels as a C library: all threads one after the other."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no C compiler")
    source = cuda_kernels.SOURCE.replace('extern "C" ', "")
    for asm, call in (
        ('asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x))', "y = half_to_float(x)"),
        ('asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x))', "y = float_to_half(x)"),
    ):
        assert asm in source
        source = source.replace(asm, call)
    source = HOST + source + "".join(LAUNCH.format(name=n) for n in cuda_kernels.NAMES)
    library = tmp_path_factory.mktemp("kernels") / "kernels.so"
    made = subprocess.run(
        ["gcc", "-x", "c", "-", "-O1", "-shared", "-fPIC", "-o", str(library)],
        input=source,
        text=True,
        capture_output=True,
    )
    if "_Float16" in made.stderr:
        pytest.skip("this C compiler has no _Float16")
    assert made.returncode == 0, made.stderr
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize(("op", "dtype"), list(itertools.product(OPS, DTYPES)))
def test_kernels_round_as_numpy_does(on_the_host, op, dtype):
    """All 65536 values with each of some; numpy and ml_dtypes, too, compute in float32."""
    words = np.arange(1 << 16, dtype=np.uint16)
    some = np.r_[words[:: 1 << 12], np.uint16(1), np.uint16(0x7FFF), np.uint16(0x8001)]
    run = getattr(on_the_host, f"run_{op}_{dtype}")
    for word in some:
        a, b, out = words.copy(), np.full_like(words, word), np.zeros_like(words)
        run(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)), ctypes.c_ulonglong(a.size))
        got = out.view(DTYPES[dtype])
        with np.errstate(all="ignore"):
            want = OPS[op](a.view(DTYPES[dtype]), b.view(DTYPES[dtype]))
            nan = np.isnan(want)
            np.testing.assert_array_equal(np.isnan(got), nan)
        if op in ("SUM", "PROD"):
            np.testing.assert_array_equal(out[~nan], want.view(np.uint16)[~nan])
        else:
            assert (got[~nan] == want[~nan]).all()


class Cupy:
    """What `reduce` needs of cupy; it records the launches."""

    __name__ = "cupy"
    uint16 = np.uint16
    ascontiguousarray = staticmethod(np.ascontiguousarray)
    empty_like = staticmethod(np.empty_like)

    def __init__(self):
        self.launched = []

    def get_function(self, name):
        def launch(groups, threads, arguments):
            self.launched.append((name, groups, threads, [np.asarray(a) for a in arguments]))
            first, second, out, n = arguments
            dtype = DTYPES[name.partition("_")[2]]
            assert n == out.size
            result = OPS[name.partition("_")[0]](first.view(dtype), second.view(dtype))
            out[...] = result.view(np.uint16)

        return launch


@pytest.fixture
def cupy(monkeypatch):
    cupy = Cupy()
    monkeypatch.setattr(cuda_kernels, "_module", lambda: cupy)
    return cupy


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("op", [SUM, PROD, MIN, MAX], ids=repr)
def test_16_bit_floats_of_cupy_go_to_the_kernels(cupy, op, dtype):
    for n in (1, 255, 257, 2_000_000):
        a = (np.arange(n) % 7).astype(dtype)
        b = np.full(n, 2, dtype)
        want = OPS[op.name](a, b)
        cuda_kernels.reduce(op, cupy, a, b, b)
        np.testing.assert_array_equal(b, want)
        name, (groups,), (threads,), _ = cupy.launched[-1]
        assert name == f"{op.name}_{dtype.name}"
        assert (groups - 1) * threads < n
        assert groups * threads >= min(n, 1 << 20)


def test_blocks_that_are_not_contiguous(cupy):
    x = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    view, arrived = x[..., 1], np.full((2, 3), 100, np.float16)
    cuda_kernels.reduce(SUM, cupy, view, arrived, view)
    np.testing.assert_array_equal(x[..., 1], 4 * np.arange(6).reshape(2, 3) + 101)
    np.testing.assert_array_equal(x[..., 0], 4 * np.arange(6).reshape(2, 3))


def test_all_else_goes_to_the_operation_itself(cupy):
    def function(xp, first, second, out):
        out[...] = second - first

    for dtype, op in ((np.float32, SUM), (np.int64, SUM), (np.float16, Op("SUM", function))):
        x, y = np.array([1, 2], dtype), np.array([5, 7], dtype)
        cupy.add = np.add
        cuda_kernels.reduce(op, cupy, x, y, x)
        assert x.tolist() == ([6, 9] if op is SUM else [4, 5])
    x, _ = on_fake_device(np.array([1, 2], np.float16))
    cuda_kernels.reduce(SUM, x.xp, x, x, x)
    assert x.host.tolist() == [2, 4]
    assert not cupy.launched


def test_cupy_has_what_is_used():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: pip install 'hpcdl[cuda]'")
    import cupyx

    for names, owner in (
        ("uint16 ascontiguousarray empty empty_like asarray from_dlpack RawModule", cupy),
        ("Stream Event Device get_current_stream", cupy.cuda),
        ("get set view reshape device flags __cuda_array_interface__", cupy.ndarray),
        ("wait_event record synchronize", cupy.cuda.Stream),
        ("done", cupy.cuda.Event),
        ("get_function", cupy.RawModule),
        ("empty_pinned", cupyx),
    ):
        for name in names.split():
            assert hasattr(owner, name), f"{owner} has no {name}"
    assert "blocking" in cupy.ndarray.get.__doc__
    assert cupy.__name__ == "cupy"
