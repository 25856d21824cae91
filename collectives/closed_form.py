"""The textbook formulas for the time of an algorithm, to hold the simulator against.

Notation: p ranks, n bytes, and the symbols of `collectives.model.Model`. A message of b bytes takes
``t(b) = L + 2 o + b G``, and ``lg`` is log2. After Thakur, Rabenseifner & Gropp 2005 (their table,
with the reduction's cost) and Ben-Nun & Hoefler 2019.

They hold where the blocks are equally long and g is no more than L + 2 o (else the gap may rule).
Rabenseifner's adds the two messages of the fold where p is no power of two: ``[...]`` in the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from collectives.algorithms.fold import core_size
from collectives.model import Model
from collectives.registry import Algorithm


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """A formula.

    Attributes:
        text: as people write it.
        seconds: ``seconds(size, nbytes, model)``.
        any_size: it holds for any number of ranks; else for powers of two.
    """

    text: str
    seconds: Callable[[int, float, Model], float]
    any_size: bool = True


def closed_form(algorithm: Algorithm, size: int, nbytes: int, model: Model) -> ClosedForm | None:
    """Return the formula of an algorithm, or None where none is known that holds for this case."""
    form = FORMS.get((algorithm.collective.name, algorithm.name))
    power_of_two = core_size(size) == size
    if form is None or nbytes == 0 or model.gap > model.latency + 2 * model.overhead:
        return None
    return form if form.any_size or power_of_two else None


def _rounds(size: int) -> int:
    return (size - 1).bit_length()


def _ring_half(p: int, n: float, m: Model) -> float:
    return (p - 1) * m.message(n / p)


def _ring_reduce_scatter(p: int, n: float, m: Model) -> float:
    return _ring_half(p, n, m) + (p - 1) * n / p * m.reduce_time


def _ring(p: int, n: float, m: Model) -> float:
    return 2 * _ring_half(p, n, m) + (p - 1) * n / p * m.reduce_time


def _bcast(p: int, n: float, m: Model) -> float:
    return _rounds(p) * m.message(n)


def _reduce(p: int, n: float, m: Model) -> float:
    return _rounds(p) * (m.message(n) + n * m.reduce_time)


def _tree(p: int, n: float, m: Model) -> float:
    return _reduce(p, n, m) + _bcast(p, n, m)


def _rabenseifner(p: int, n: float, m: Model) -> float:
    core = core_size(p)
    moved = (core - 1) / core * n
    fixed = 2 * _rounds(core) * m.message(0)
    fold = 0.0 if core == p else 2 * m.message(n) + n * m.reduce_time
    return fixed + moved * (2 * m.byte_time + m.reduce_time) + fold


FORMS = {
    ("allreduce", "ring"): ClosedForm("2 (p-1) t(n/p) + (p-1) n/p c", _ring),
    ("allreduce", "tree"): ClosedForm("2 lg p t(n) + lg p n c", _tree, any_size=False),
    ("allreduce", "recursive_doubling"): ClosedForm("lg p (t(n) + n c)", _reduce, any_size=False),
    ("allreduce", "rabenseifner"): ClosedForm(
        "2 lg q t(0) + (q-1)/q n (2 G + c) [+ 2 t(n) + n c], q = 2^floor(lg p)", _rabenseifner
    ),
    ("reduce_scatter", "ring"): ClosedForm("(p-1) (t(n/p) + n/p c)", _ring_reduce_scatter),
    ("allgather", "ring"): ClosedForm("(p-1) t(n/p)", _ring_half),
    ("alltoall", "pairwise"): ClosedForm("(p-1) t(n/p)", _ring_half),
    ("bcast", "binomial"): ClosedForm("lg p t(n)", _bcast, any_size=False),
    ("reduce", "binomial"): ClosedForm("lg p (t(n) + n c)", _reduce, any_size=False),
}
"""The formulas that are known, by collective and algorithm."""
