"""Plans whose communicator is freed before them."""

import numpy as np
import pytest

import collectives
from collectives.executors.native import numba_is_there

WAYS = [{"executor": "python"}]
if numba_is_there():
    WAYS += [{"executor": "native"}, {"executor": "shared"}, {"background": True}]


@pytest.mark.ranks(1, 2, 3, every_mpi=True)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_plan_is_refused_once_its_communicator_is_freed(comm, way):
    own = comm.Dup()
    plan = collectives.plan_allreduce(np.ones(4, np.float32), comm=own, **way)
    own.Free()
    for begin in (plan.start, plan.run):
        with pytest.raises(RuntimeError, match="communicator of this plan was freed"):
            begin()
    plan.close()
