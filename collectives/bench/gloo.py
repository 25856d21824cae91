"""The Gloo library beside, by way of `torch.distributed`, on the same ranks and memory."""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mpi4py import MPI

from collectives.bench.buffers import Buffers
from collectives.bench.form import Call
from collectives.bench.settings import IN_PLACE, OUT_OF_PLACE, Settings

_TIMEOUT = timedelta(seconds=60)


class GlooError(ValueError):
    """Gloo cannot be compared with."""

    plain = True


class Gloo:
    """A process group of Gloo over all ranks. Collective.

    Where Gloo and MPI are both at work, each has its own connections; they meet in the memory only.

    Args:
        comm: all its ranks take part.

    Raises:
        GlooError: there is no torch, or none with Gloo.
    """

    def __init__(self, comm: MPI.Comm) -> None:
        try:
            torch = importlib.import_module("torch")
            group = importlib.import_module("torch.distributed")
        except ImportError as error:
            raise GlooError(f"--compare gloo: needs PyTorch (pip install torch): {error}") from None
        if not (group.is_available() and group.is_gloo_available()):
            raise GlooError("--compare gloo: this PyTorch was built without Gloo")
        self._torch, self._group = torch, group
        torch.set_num_threads(1)
        rank, size = comm.Get_rank(), comm.Get_size()
        one_node = len(set(comm.allgather(MPI.Get_processor_name()))) == 1
        # Rank 0 opens a port that is free, and tells the others which.
        host = "127.0.0.1" if one_node else socket.gethostname()
        store = group.TCPStore(host, 0, size, True, _TIMEOUT, False) if rank == 0 else None
        host, port = comm.bcast((host, store.port) if store is not None else None)
        if store is None:
            store = group.TCPStore(host, port, size, False, _TIMEOUT)
        group.init_process_group("gloo", store=store, rank=rank, world_size=size)

    def close(self) -> None:
        """End the process group. Collective."""
        self._group.destroy_process_group()

    def call(self, settings: Settings, b: Buffers) -> tuple[str, Call] | None:
        """Return how Gloo does the collective on the private buffers: (form, call).

        Returns:
            None where it has no such collective, or none for parts of different lengths.
        """
        make = _CALLS.get(settings.name)
        if make is None or settings.dtype == "bfloat16":
            return None
        return make(self._torch, self._group, settings, b)


def _allreduce(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    data, op = torch.from_numpy(b.work), _op(group, s)
    return IN_PLACE, lambda: group.all_reduce(data, op)


def _reduce(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    data, op = torch.from_numpy(b.work), _op(group, s)
    return IN_PLACE, lambda: group.reduce(data, 0, op)


def _bcast(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    data = torch.from_numpy(b.work)
    return IN_PLACE, lambda: group.broadcast(data, 0)


def _allgather(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call] | None:
    if len(set(b.counts)) > 1:
        return None
    part = torch.from_numpy(b.data[b.part])
    parts = list(torch.from_numpy(b.out).split(b.counts))
    return OUT_OF_PLACE, lambda: group.all_gather(parts, part)


def _reduce_scatter(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call] | None:
    if len(set(b.counts)) > 1:
        return None
    data, op = torch.from_numpy(b.data), _op(group, s)
    part = torch.from_numpy(b.out[b.part])
    # The name of before PyTorch 2.14.
    call = getattr(group, "reduce_scatter_single", None) or group.reduce_scatter_tensor
    return OUT_OF_PLACE, lambda: call(part, data, op)


def _alltoall(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    data, out = torch.from_numpy(b.data), torch.from_numpy(b.out)
    return OUT_OF_PLACE, lambda: group.all_to_all_single(out, data)


def _gather(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    part = torch.from_numpy(b.data[b.part])
    parts = list(torch.from_numpy(b.out).split(b.counts)) if group.get_rank() == 0 else None
    return OUT_OF_PLACE, lambda: group.gather(part, parts, 0)


def _scatter(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    part = torch.from_numpy(b.out[b.part])
    parts = list(torch.from_numpy(b.data).split(b.counts)) if group.get_rank() == 0 else None
    return OUT_OF_PLACE, lambda: group.scatter(part, parts, 0)


def _barrier(torch: Any, group: Any, s: Settings, b: Buffers) -> tuple[str, Call]:
    return IN_PLACE, lambda: group.barrier()


def _op(group: Any, settings: Settings) -> Any:
    names = {"SUM": "SUM", "PROD": "PRODUCT", "MIN": "MIN", "MAX": "MAX"}
    return getattr(group.ReduceOp, names[settings.op.name])


_CALLS: dict[str, Callable[[Any, Any, Settings, Buffers], tuple[str, Call] | None]] = {
    "allreduce": _allreduce,
    "reduce": _reduce,
    "bcast": _bcast,
    "reduce_scatter": _reduce_scatter,
    "allgather": _allgather,
    "alltoall": _alltoall,
    "gather": _gather,
    "scatter": _scatter,
    "barrier": _barrier,
}
