"""The textbook formula for the time of an algorithm, to hold the simulator against.

Notation: p ranks, n bytes, and the symbols of `collectives.model.Model`. A message of b bytes takes
``t(b) = L + 2 o + b G``; a rank can send one every ``u(b) = max(o + b G, g)``; ``lg`` is log2.

They hold where the blocks are equally long and g is no more than L + 2 o (else the gap may rule).
The texts are for people, and for two ranks or more: what follows ``for`` is a condition (``p =
2^d``: a power of two), ``[...]`` is the fold where p is no power of two, and where a rank sends
several messages in a round they leave o and g out. `seconds` needs none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectives import time_formulas as f
from collectives.algorithms.choice import NAME
from collectives.algorithms.fold import core_size
from collectives.algorithms.hierarchical import allreduce_phases
from collectives.algorithms.leaders import DEALT, phases_of
from collectives.collective import ALLREDUCE, BARRIER
from collectives.model import Model
from collectives.registry import Algorithm


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula of the table.

    Attributes:
        text: as people write it.
        seconds: ``seconds(size, nbytes, model, **tunables)``.
        any_size: it holds for any number of ranks; else for powers of two.
        uses: the tunables that it depends on.
    """

    text: str
    seconds: Callable[..., float]
    any_size: bool = True
    uses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """A formula with its tunables set.

    Attributes:
        text: as people write it.
        seconds: ``seconds(size, nbytes, model)``.
    """

    text: str
    seconds: Callable[[int, float, Model], float]


def closed_form(algorithm: Algorithm, size: int, nbytes: float, model: Model) -> ClosedForm | None:
    """Return the formula of an algorithm, or None where none is known that holds for this case.

    In a barrier each token counts as one byte, and ``nbytes`` is not looked at.
    """
    barrier = algorithm.collective is BARRIER
    if (nbytes == 0 and not barrier) or model.gap > model.latency + 2 * model.overhead:
        return None
    settings = {key: t.default for key, t in algorithm.tunables.items()} | {**algorithm.settings}
    if algorithm.name == NAME:
        return _hierarchical(algorithm, size, settings, model)
    form = FORMS.get((algorithm.collective.name, algorithm.name))
    if form is None or not (form.any_size or core_size(size) == size):
        return None
    used = {key: settings[key] for key in form.uses}

    def seconds(size: int, nbytes: float, model: Model) -> float:
        n = algorithm.blocks(size) if barrier else nbytes
        return form.seconds(size, n, model, **used)

    return ClosedForm(form.text, seconds)


def _hierarchical(
    algorithm: Algorithm, size: int, settings: Mapping[str, Any], model: Model
) -> ClosedForm | None:
    """Return the sum of the formulas of the phases, where all groups are equally large."""
    node = min(int(settings["node"]), size)
    if size % node:
        return None
    groups, names = size // node, (settings["inner"], settings["outer"])
    lanes = algorithm.collective is ALLREDUCE
    if lanes and settings["inner"] == "linear":
        return None  # its ranks get their parts one after the other
    if lanes:
        phases = allreduce_phases(size, node, *names)
    else:
        phases = phases_of(algorithm.collective, *names)
    # Which part of the bytes a phase works on.
    parts = [
        (phases.before, node, _within(phases.before, groups, lanes)),
        (phases.across, groups, 1 / node if lanes else 1.0),
        (phases.after, node, _within(phases.after, groups, lanes)),
    ]
    terms = [(closed_form(a, p, 1, model), p, part) for a, p, part in parts if a is not None]
    forms = [(form, p, part) for form, p, part in terms if form is not None]
    if len(forms) < len(terms):
        return None

    def seconds(size: int, nbytes: float, model: Model) -> float:
        n = algorithm.blocks(size) if algorithm.collective is BARRIER else nbytes
        return sum(form.seconds(p, n * part, model) for form, p, part in forms)

    text = " + ".join(f"{a.collective.name} {a.name} of {p} ranks" for a, p, _ in parts if a)
    return ClosedForm(text, seconds)


def _within(algorithm: Algorithm | None, groups: int, lanes: bool) -> float:
    dealt = algorithm is not None and algorithm.collective in DEALT
    return 1 / groups if dealt and not lanes else 1.0


_POWER = "for p = 2^d"
_HALVING = "lg p t(0) + (p-1)/p n (G + c)"
_DOUBLING = "lg p t(0) + (p-1)/p n G"
_FOLDED = "[+ 2 t(n) + n c], q = 2^floor(lg p)"
_SEGMENTS = "for p > 2, S segments"
_BATCH = "for p-1 <= w"

FORMS = {
    ("allreduce", "ring"): Formula("2 (p-1) t(n/p) + (p-1) n/p c", f.ring, uses=("segments",)),
    ("allreduce", "bidirectional_ring"): Formula(
        "(p-1) (2 L + n/p G + n/(2p) (G + c + max(G, c))), for p > 2", f.bidirectional_ring
    ),
    ("allreduce", "torus"): Formula(
        "2 (x-1) t(n/x) + 2 (y-1) t(n/p) + (p-1) n/p c, x y = p", f.torus, uses=("width",)
    ),
    ("allreduce", "direct"): Formula(
        f"2 L + n (G + c/p) + (p-2) n/p max(G, c), {_BATCH}", f.direct, uses=("window",)
    ),
    ("allreduce", "linear"): Formula("2 L + n (p G + c) + (p-2) n max(G, c)", f.linear),
    ("allreduce", "tree"): Formula(f"2 lg p t(n) + lg p n c, {_POWER}", f.tree),
    ("allreduce", "recursive_doubling"): Formula(
        f"lg p (t(n) + n c), {_POWER}", f.recursive_doubling, any_size=False
    ),
    ("allreduce", "rabenseifner"): Formula(
        f"2 lg q t(0) + (q-1)/q n (2 G + c) {_FOLDED}", f.rabenseifner
    ),
    ("allreduce", "swing"): Formula(f"2 lg q t(0) + (q-1)/q n (2 G + c) {_FOLDED}", f.rabenseifner),
    ("reduce_scatter", "ring"): Formula(
        "(p-1) (t(n/p) + n/p c)", f.ring_reduce_scatter, uses=("segments",)
    ),
    ("reduce_scatter", "bidirectional_ring"): Formula(
        "(p-1) (L + n/(2p) (G + c + max(G, c))), for p > 2", f.bidirectional_reduce_scatter
    ),
    ("reduce_scatter", "pairwise"): Formula("(p-1) (t(n/p) + n/p c)", f.ring_reduce_scatter),
    ("reduce_scatter", "direct"): Formula(
        f"L + n/p (G + c) + (p-2) n/p max(G, c), {_BATCH}",
        f.direct_reduce_scatter,
        uses=("window",),
    ),
    ("reduce_scatter", "recursive_halving"): Formula(
        f"{_HALVING}, {_POWER}", f.halving, any_size=False
    ),
    ("reduce_scatter", "linear"): Formula(
        "2 L + (2p-1)/p n G + n c + (p-2) n max(G, c)", f.linear_reduce_scatter
    ),
    ("allgather", "ring"): Formula("(p-1) t(n/p)", f.ring_allgather, uses=("segments",)),
    ("allgather", "bidirectional_ring"): Formula("(p-1) (L + n/p G)", f.bidirectional_allgather),
    ("allgather", "direct"): Formula(
        f"L + (p-1) n/p G, {_BATCH}", f.direct_allgather, uses=("window",)
    ),
    ("allgather", "bruck"): Formula(
        "ceil(lg p) t(0) + (p-1)/p n G", f.bruck_allgather, uses=("radix",)
    ),
    ("allgather", "recursive_doubling"): Formula(
        f"{_DOUBLING}, {_POWER}", f.doubling, any_size=False
    ),
    ("allgather", "linear"): Formula("2 L + (p-1) (1 + 1/p) n G", f.linear_allgather),
    ("alltoall", "pairwise"): Formula("(p-1) t(n/p)", f.ring_allgather),
    ("alltoall", "direct"): Formula(
        f"L + (p-1) n/p G, {_BATCH}", f.direct_allgather, uses=("window",)
    ),
    ("alltoall", "bruck"): Formula(
        f"lg p (t(0) + n/2 G), {_POWER}", f.bruck_alltoall, uses=("radix",)
    ),
    ("bcast", "binomial"): Formula(f"lg p t(n), {_POWER}", f.binomial_bcast),
    ("bcast", "linear"): Formula("t(n) + (p-2) u(n)", f.linear_bcast),
    ("bcast", "chain"): Formula(
        f"(p-1) t(n/S) + (S-1) max(u(n/S), 2 o), {_SEGMENTS}", f.chain_bcast, uses=("segments",)
    ),
    ("bcast", "scatter_allgather"): Formula(
        f"{_DOUBLING} + (p-1) t(n/p), {_POWER}", f.scatter_allgather
    ),
    ("reduce", "binomial"): Formula(f"lg p (t(n) + n c), {_POWER}", f.binomial_reduce),
    ("reduce", "linear"): Formula("L + n (G + c) + (p-2) n max(G, c)", f.linear_reduce),
    ("reduce", "chain"): Formula(
        f"(p-1) (t(n/S) + n/S c) + (S-1) max(u(n/S), 2 o + n/S c), {_SEGMENTS}",
        f.chain_reduce,
        uses=("segments",),
    ),
    ("reduce", "rabenseifner"): Formula(
        "2 lg q t(0) + (q-1)/q n (2 G + c) [+ t(n) + n c], q = 2^floor(lg p)",
        f.rabenseifner_reduce,
    ),
    ("scatter", "binomial"): Formula(f"{_DOUBLING}, {_POWER}", f.binomial_scatter),
    ("scatter", "linear"): Formula("t(n/p) + (p-2) u(n/p)", f.linear_scatter),
    ("gather", "binomial"): Formula(f"{_DOUBLING}, {_POWER}", f.binomial_gather),
    ("gather", "linear"): Formula("L + (p-1) n/p G", f.linear_gather),
    ("barrier", "dissemination"): Formula("ceil(lg p) t(0) + (p-1) G", f.bruck_allgather),
    ("barrier", "recursive_doubling"): Formula(
        f"lg p t(0) + (p-1) G, {_POWER}", f.doubling, any_size=False
    ),
    ("barrier", "tree"): Formula(f"2 lg p t(0) + (p-1 + p lg p) G, {_POWER}", f.tree_barrier),
    ("barrier", "linear"): Formula("2 L + (p-1) (1 + p) G", f.linear_allgather),
}
"""The formulas that are known, by collective and algorithm; those of hierarchical ones are sums."""
