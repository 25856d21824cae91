"""Collectives on several nodes: in shared memory inside each, by any schedule between them.

Where all nodes have as many ranks, an allreduce is a reduce-scatter inside the nodes, an allreduce
of each part between the ranks with the same place on their nodes, and an allgather inside; so all
ranks use the network, as in the hierarchical schedules (Mikami et al. 2018). Where nodes differ,
one rank of each stands for the others (as in MPI libraries; Karonis et al. 2000).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from collectives.blocks import share
from collectives.executors.native import NotNative
from collectives.executors.sequence import SequencePlan
from collectives.memory import flat
from collectives.plan import Plan
from collectives.traffic import Traffic

if TYPE_CHECKING:
    from collectives.bind import Job
    from collectives.window import Node


def plan_between_nodes(
    job: Job, node: Node, algorithm: str, traffic: Traffic | None = None
) -> Plan:
    """Return a plan for an allreduce on several nodes. Collective over all ranks.

    Args:
        job: the allreduce.
        node: of this rank.
        algorithm: of the allreduce between nodes.
        traffic: counters to add to.

    Raises:
        NotNative: it is another collective.
    """
    from collectives import plans

    if job.collective.name != "allreduce":
        raise NotNative(f"{job.collective.name} on several nodes")
    vector = flat(job.target)
    inside: dict[str, Any] = {"comm": node.comm, "executor": "shared", "traffic": traffic}
    across = node.across()
    outside: dict[str, Any] = {"comm": across, "algorithm": algorithm, "traffic": traffic}
    made: list[tuple[Plan, MPI.Comm]]
    if node.even:
        mine = vector[slice(*share(vector.size, node.rank, node.size))]
        made = [
            (plans.plan_reduce_scatter(vector, job.op, **inside), node.comm),
            (plans.plan_allreduce(mine, job.op, **outside), across),
            (plans.plan_allgather(vector, **inside), node.comm),
        ]
    else:
        made = [(plans.plan_reduce(vector, job.op, 0, **inside), node.comm)]
        if node.rank == 0:
            made.append((plans.plan_allreduce(vector, job.op, **outside), across))
        made.append((plans.plan_bcast(vector, 0, **inside), node.comm))
    return SequencePlan(made, node, algorithm)
