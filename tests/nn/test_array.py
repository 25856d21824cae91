"""Namespaces of arrays, and what the layers may ask of them."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hpcdl
from hpcdl.array import namespace, to_host
from tests.nn.strict import NAMESPACE, StrictArray

SOURCES = sorted(
    path
    for package in ("nn", "optim", "compression")
    for path in Path(hpcdl.__file__).parent.joinpath(package).glob("*.py")
)


def test_numpy():
    x = np.arange(3)
    assert namespace(x) is np
    assert to_host(x) is x


def test_arrays_that_know_their_namespace():
    x = StrictArray(np.arange(3))
    assert namespace(x) is NAMESPACE
    assert type(to_host(x)) is np.ndarray
    assert to_host(x).tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrong", [[1.0], 2.0, None])
def test_no_array(wrong):
    with pytest.raises(TypeError, match=f"got {type(wrong).__name__}"):
        namespace(wrong)
    with pytest.raises(TypeError, match=f"got {type(wrong).__name__}"):
        to_host(wrong)


def test_nn_and_optim_import_numpy_only():
    code = (
        "import sys, hpcdl.nn, hpcdl.optim, hpcdl.array;"
        "print(sorted(m for m in ('mpi4py', 'collectives', 'cupy', 'h5py', 'sklearn', 'scipy',"
        "'matplotlib') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("[]", "", 0)


def used():
    """Dotted names under `xp` or `namespace(...)` in the sources, with keywords where called."""
    found = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            call = node if isinstance(node, ast.Call) else None
            names, inner = [], call.func if call else node
            while isinstance(inner, ast.Attribute):
                names.append(inner.attr)
                inner = inner.value
            direct = isinstance(inner, ast.Name) and inner.id == "xp"
            asked = isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "namespace"
            if names and (direct or asked):
                keywords = {keyword.arg for keyword in call.keywords} if call else set()
                found.setdefault(".".join(reversed(names)), set()).update(keywords)
    return found


def test_cupy_offers_each_function_that_is_used():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: pip install 'hpcdl[cuda]'")
    names = used()
    assert {"matmul", "maximum", "lib.stride_tricks.as_strided"} <= set(names)
    for name, keywords in names.items():
        function = cupy
        for part in name.split("."):
            assert hasattr(function, part), f"cupy has no {name}"
            function = getattr(function, part)
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):  # a ufunc; these take `out`
            assert keywords <= {"out"}, name
            continue
        if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
            assert keywords <= set(parameters), name


def test_arrays_of_cupy_have_each_method_that_is_used():
    cupy = pytest.importorskip("cupy", reason="cupy is not installed: pip install 'hpcdl[cuda]'")
    own = set(dir(np.ndarray))
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in own and node.attr != "index":
                assert hasattr(cupy.ndarray, node.attr), f"{path.name}: {node.attr}"
    assert namespace(FakeCupy()) is cupy


class FakeCupy:
    """A class that says it comes from cupy, as no array of cupy can be made without a device."""


FakeCupy.__module__ = "cupy._core.core"
