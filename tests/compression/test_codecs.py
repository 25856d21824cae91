"""What every codec promises."""

import subprocess
import sys

import numpy as np
import pytest

from hpcdl.compression import CODECS, ErrorFeedback
from tests.compression.cases import CODECS_TO_TEST, PLAIN, coded, encoded
from tests.nn.strict import NAMESPACE, StrictArray

LENGTHS = [0, 1, 2, 7, 8, 511, 512, 513, 1030]
DTYPES = [np.float32, np.float64]

every_codec = pytest.mark.parametrize("codec", CODECS_TO_TEST, ids=str)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def vector(n, dtype=np.float64, seed=0):
    return np.random.default_rng([n, seed]).standard_normal(n).astype(dtype)


def test_each_codec_that_ships_is_tested():
    assert {type(codec) for codec in PLAIN} == set(CODECS.values())


@every_codec
@every_dtype
@pytest.mark.parametrize("n", LENGTHS)
def test_the_payload_is_as_long_as_said(codec, dtype, n):
    x = vector(n, dtype)
    payload = encoded(codec, x, np.random.default_rng(0))
    assert payload.dtype == np.uint8
    assert payload.shape == (codec.payload_bytes(n, dtype),)
    assert np.array_equal(x, vector(n, dtype))


@every_codec
@every_dtype
@pytest.mark.parametrize("n", LENGTHS)
def test_decode_adds(codec, dtype, n):
    x = vector(n, dtype)
    payload = encoded(codec, x, np.random.default_rng(0))
    alone, added = np.zeros(n, dtype), vector(n, dtype, 1)
    codec.decode(payload, alone)
    codec.decode(payload, added)
    assert np.array_equal(added, vector(n, dtype, 1) + alone)


@every_codec
@every_dtype
def test_zeros_stay_zeros(codec, dtype):
    zeros = np.zeros(700, dtype)
    assert not coded(codec, zeros, np.random.default_rng(0)).any()
    zeros[3] = 1.0
    assert np.flatnonzero(coded(codec, zeros, np.random.default_rng(0))).tolist() == [3]


@every_codec
@every_dtype
@pytest.mark.parametrize("value", [0.0, 1.5, -2.25, 1e-30])
def test_one_element(codec, dtype, value):
    result = coded(codec, np.array([value], dtype), np.random.default_rng(0))
    # Half precision has nothing near 1e-30; the others give one element back as it is.
    assert np.allclose(result, np.array([value], dtype), rtol=1e-7, atol=1e-29)


@every_codec
def test_the_random_numbers_alone_decide(codec):
    x = vector(1000)
    first, again = (encoded(codec, x, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, again)


@every_codec
def test_tiny_and_huge_values(codec):
    for scale in (1e-44, 1e38):
        x = np.float32(scale) * np.linspace(-1, 1, 9, dtype=np.float32)
        result = coded(codec, x, np.random.default_rng(0))
        # Nothing overflows or is lost where the code has a scale; half precision has its limits.
        limit = np.linalg.norm(x.astype(float)) if codec.payload_dtype == np.uint8 else np.inf
        assert (np.abs(result) <= limit * 1.01).all()


@pytest.mark.parametrize("codec", [c for c in PLAIN if c.unbiased], ids=str)
def test_unbiased(codec):
    """Along random directions, the mean of 2000 draws is within 5 standard errors."""
    x, rng = vector(200), np.random.default_rng(1)
    directions = np.eye(200)[:20].tolist() + list(rng.standard_normal((30, 200)))
    draws = np.array([coded(codec, x, rng) for _ in range(2000)]) @ np.array(directions).T
    errors = np.abs(draws.mean(axis=0) - np.array(directions) @ x)
    assert (errors <= 5 * draws.std(axis=0) / np.sqrt(2000) + 1e-12).all()


@pytest.mark.parametrize("codec", [c for c in PLAIN if not c.unbiased and c.sparse], ids=str)
def test_biased_ones_say_so(codec):
    x, rng = vector(200), np.random.default_rng(1)
    draws = np.array([coded(codec, x, rng) for _ in range(10)])
    assert (draws == draws[0]).all()  # there is no chance in it ...
    complete = codec.payload_bytes(200, x.dtype) >= x.nbytes
    assert np.array_equal(draws[0], x) == complete  # ... so it is unbiased only if it is exact


@every_codec
def test_the_namespace_of_the_array(codec):
    x = vector(700)
    strict = StrictArray(x.copy())
    state, other = codec.init(700, x.dtype), codec.init(700, x.dtype, NAMESPACE)
    for _ in range(2):
        payload, state = codec.encode(x, state, np.random.default_rng(3))
        shadow, other = codec.encode(strict, other, np.random.default_rng(3))
        assert isinstance(shadow, StrictArray)
        assert np.array_equal(shadow.get(), payload)
    out, mirror = np.zeros(700), StrictArray(np.zeros(700))
    codec.decode(payload, out)
    codec.decode(shadow, mirror)
    assert np.array_equal(mirror.get(), out)
    assert all(np.array_equal(other[name].get(), a) for name, a in state.items())


@every_codec
def test_what_is_refused(codec):
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="dtype: is float16; a codec takes float32 or float64"):
        codec.encode(np.zeros(4, np.float16), {"residual": np.zeros(4, np.float16)}, rng)
    with pytest.raises(TypeError, match="dtype: is int64"):
        codec.payload_bytes(4, np.int64)
    with pytest.raises(ValueError, match=r"x: has shape \(2, 2\); a codec takes 1-D"):
        codec.encode(np.zeros((2, 2)), codec.init(4, np.float64), rng)
    payload = encoded(codec, np.zeros(40), rng)
    with pytest.raises(ValueError, match=rf"payload: has shape \({payload.size - 1},\); .* 40 "):
        codec.decode(payload[1:], np.zeros(40))
    with pytest.raises(TypeError, match="payload: has dtype int8; needs uint8"):
        codec.decode(payload.view(np.int8), np.zeros(40))
    with pytest.raises(ValueError, match="out: has shape"):
        codec.decode(payload, np.zeros((40, 1)))


def test_codecs_know_no_transport():
    code = "import sys, hpcdl.compression; print({'mpi4py', 'collectives'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@every_codec
@every_dtype
def test_error_feedback_loses_nothing(codec, dtype):
    """sent + residual == what was to be sent, to rounding, whatever the codec."""
    wrapped = codec if isinstance(codec, ErrorFeedback) else ErrorFeedback(codec)
    rng, steps = np.random.default_rng(2), 30
    state = wrapped.init(300, dtype)
    sent, given = np.zeros(300), np.zeros(300)
    for step in range(steps):
        x = vector(300, dtype, step)
        payload, state = wrapped.encode(x, state, rng)
        out = np.zeros(300, dtype)
        wrapped.decode(payload, out)
        sent += out
        given += x
    tolerance = steps * 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(sent + state["residual"], given, atol=tolerance, rtol=0)
