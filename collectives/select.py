"""Choose an algorithm and an executor for a collective, a number of ranks and a number of bytes.

A table that was measured on the machine rules, where it has the case (see `collectives.table`).
Else the choice is what the model prices lowest: the model that was fitted on the machine, or the
one here. It depends on nothing but its arguments, so all ranks make the same one without talking,
in every run.

On few ranks the price is the simulated time, so the choice is the fastest in the simulation; on
many it is that of `collectives.price`. Tunables are tried one at a time, for the algorithms that
are no more than twice as slow as the best with their defaults.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from collectives.collective import COLLECTIVES, Collective
from collectives.model import Model
from collectives.price import Profile, cheapest
from collectives.registry import REGISTRY, Algorithm
from collectives.simulate import simulate
from collectives.table import Table, Way
from collectives.timeline import Timeline
from collectives.topology import Topology

PYTHON = Model(latency=1e-7, byte_time=1.6e-10, reduce_time=8e-11, overhead=1.4e-6)
"""The costs of the Python executor between two ranks of one node, as ``python -m collectives tune``
fitted them on MPICH and Open MPI: starting a message costs more than the wire. Relative residuals
were a third; with Intel MPI a byte took a third of that."""

NATIVE = Model(latency=3e-7, byte_time=1.6e-10, reduce_time=5e-11, overhead=2e-7)
"""The same of the native executor; relative residuals were 0.2 to 0.3. Latencies were 0.9
microseconds on MPICH, and part of the overhead on the others."""

MODELS = {"native": NATIVE, "python": PYTHON}
"""The model of each executor that runs schedules on one node, where nothing was measured."""

NETWORK = Model(latency=2e-6, byte_time=8e-11, reduce_time=1e-12, overhead=1e-6)
"""The costs of any executor between nodes: of a fabric of 100 Gbit/s, and of cores that sum so fast
that to sum less counts among equals only. Where sums count more, the model prefers two rings to
one, which measurements over TCP did not."""

INCAST_BYTES = 32 << 10
"""Longer messages are not sent to one rank by all others at a time, on several nodes: no model
here has the buffers of a switch that run over."""

CROWDS = ("direct",)
"""The algorithms that do that; others take them as their inner or outer one."""

FEW = 16
"""Up to so many ranks prices are simulated times."""

TUNED = 128
"""Up to so many ranks tunables are tried."""

NEAR = 2.0
"""Tunables are tried for algorithms that are at most so many times slower than the best."""

VARIANTS = 24
"""At most so many settings of an algorithm are tried."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to take.

    Attributes:
        algorithm: as `collectives.registry.Registry.get` takes it: ``ring``, ``chain:segments=8``.
        executor: "native", "python" or "shared".
        seconds: what that takes, as measured or predicted.
        source: "table" or "model".
    """

    algorithm: str
    executor: str
    seconds: float
    source: str


@functools.lru_cache(maxsize=4096)
def choose(
    collective: Collective,
    size: int,
    nbytes: int,
    *,
    model: Model | Topology | None = None,
    table: Table | None = None,
    executors: tuple[str, ...] = ("native", "python"),
    placement: str = "private",
    itemsize: int = 4,
    network: bool = False,
) -> Choice:
    """Return what ``algorithm="auto"`` takes.

    Args:
        collective: what to do.
        size: number of ranks.
        nbytes: length of the buffer of a rank, as `collectives.extent.Extent` says.
        model: the costs on any executor. Default: those that the table has for each, else `MODELS`
            or `NETWORK`.
        table: what was measured on this machine.
        executors: those that can be had; the first of equally good ones is taken.
        placement: where the buffers lie: "private" or "window".
        itemsize: bytes of an element.
        network: the ranks lie on several nodes.

    Raises:
        ValueError: the collective has no algorithm, or there is no executor with a model.
    """
    if table is not None:
        found = _from_table(table, collective, size, nbytes, executors, placement, itemsize)
        if found is not None:
            return found
    models = models_of(executors, model, table, network=network)
    crowded = network and nbytes > size * INCAST_BYTES
    return _from_models(collective, size, nbytes, models, CROWDS if crowded else ())


def models_of(
    executors: tuple[str, ...],
    model: Model | Topology | None,
    table: Table | None,
    *,
    network: bool = False,
) -> tuple[tuple[str, Model | Topology], ...]:
    """Return each executor that has a model, with its model.

    Raises:
        ValueError: none has one.
    """
    fits = {} if table is None else {name: fit.model for name, fit in table.fits.items()}
    guesses: dict[str, Model] = dict.fromkeys(MODELS, NETWORK) if network else MODELS
    known: dict[str, Model | Topology] = {**guesses, **fits}
    if model is not None:
        known = dict.fromkeys(known, model)
    found = tuple((e, known[e]) for e in executors if e in known)
    if not found:
        raise ValueError(f"executors={executors!r}: none has a model; there are {', '.join(known)}")
    return found


def _from_table(
    table: Table,
    collective: Collective,
    size: int,
    nbytes: int,
    executors: tuple[str, ...],
    placement: str,
    itemsize: int,
) -> Choice | None:
    section = table.find(collective.name, size, placement, itemsize, nbytes)
    if section is None:
        return None
    way = section.best(nbytes).way
    if way.executor not in executors:
        those = [w for w in section.seconds if w.executor in executors]
        if not those:
            return None
        way = min(those, key=lambda w: section.measured(w, nbytes))
    return Choice(*way, section.measured(way, nbytes), "table")


def _from_models(
    collective: Collective,
    size: int,
    nbytes: int,
    models: tuple[tuple[str, Model | Topology], ...],
    without: tuple[str, ...],
) -> Choice:
    names = [name for name in REGISTRY.names(collective) if name not in without]
    if not names:
        raise ValueError(f"collective={collective.name}: no algorithm is registered")
    ways = [(Way(name, executor), model) for executor, model in models for name in names]
    if size > TUNED:
        options = [
            (profile_of(collective.name, way.algorithm, size), _flat(model)) for way, model in ways
        ]
        i, seconds = cheapest(options, nbytes)
        return Choice(*ways[i][0], seconds, "model")
    priced = [(predicted(collective, w.algorithm, size, nbytes, m), w, m) for w, m in ways]
    best = min(price for price, _, _ in priced)
    for price, way, model in priced.copy():
        if price <= NEAR * best:
            for spec in _settings(REGISTRY.get(collective, way.algorithm), size):
                if any(spec.endswith(f"={name}") for name in without):
                    continue
                seconds = predicted(collective, spec, size, nbytes, model)
                priced.append((seconds, Way(spec, way.executor), model))

    # Of equal ones that which cuts the data into fewer blocks: less to gather and to scatter; and
    # the plainer one, as some are the same on so few ranks.
    def rank(p: tuple[float, Way, Model | Topology]) -> tuple[float, int, int]:
        algorithm = REGISTRY.get(collective, p[1].algorithm)
        return float(f"{p[0]:.9e}"), algorithm.blocks(size), len(algorithm.tunables)

    seconds, way, _ = min(priced, key=rank)
    return Choice(*way, seconds, "model")


def predicted(
    collective: Collective, spec: str, size: int, nbytes: int, model: Model | Topology
) -> float:
    """Return the price of an algorithm of the registry in seconds.

    Raises:
        ValueError: there is no such algorithm.
    """
    if isinstance(model, Topology) and size <= TUNED:
        return simulate(REGISTRY.get(collective, spec), size, nbytes, model).seconds
    if size <= FEW and isinstance(model, Model):
        return _timeline_of(collective.name, spec, size).seconds(nbytes, model)
    return cheapest([(profile_of(collective.name, spec, size), _flat(model))], nbytes)[1]


def variants(collective: Collective, size: int) -> Iterator[str]:
    """Yield every algorithm of a collective, followed by its settings that are worth a try.

    Each tunable is set to each of its values, the others having their defaults.
    """
    for name in REGISTRY.names(collective):
        yield name
        yield from _settings(REGISTRY.get(collective, name), size)


def _settings(algorithm: Algorithm, size: int) -> list[str]:
    specs = [
        algorithm.tuned(**{key: value}).spec
        for key, tunable in algorithm.tunables.items()
        for value in tunable.values(size)
        if value != tunable.default
    ]
    return specs[:VARIANTS]


def _flat(model: Model | Topology) -> Model:
    """Return one model for all messages: the network's, which is the bottleneck of many nodes."""
    return model.between if isinstance(model, Topology) else model


@functools.lru_cache(maxsize=4096)
def _timeline_of(collective: str, spec: str, size: int) -> Timeline:
    return Timeline(REGISTRY.get(COLLECTIVES[collective], spec), size)


@functools.lru_cache(maxsize=4096)
def profile_of(collective: str, spec: str, size: int) -> Profile:
    """Return the profile of an algorithm of the registry, walked as far as it was before."""
    return Profile(REGISTRY.get(COLLECTIVES[collective], spec), size)
