"""Which rows go where: ranges, schedule and adjoint, without MPI."""

import itertools

import numpy as np
import pytest

from collectives.adjoint import adjoint, adjoint_of
from collectives.algorithms.ring import allgather
from collectives.blocks import share
from collectives.collective import ALLTOALL, Collective
from collectives.interpret import interpret
from collectives.step import Recv, Send, rounds_of
from collectives.verify import ScheduleError, check_matching, verify_schedule
from hpcdl.halo import common, gather, halo, halo_schedule, reach


def spans(length, parts):
    return [share(length, part, parts) for part in range(parts)]


def windows():
    """(height, kernel, stride, padding above, outputs) of many sliding windows."""
    for height, kernel, stride in itertools.product(
        (1, 2, 7, 8, 9, 16), (1, 2, 3, 5, 7), (1, 2, 3)
    ):
        for top, bottom in {(0, 0), (kernel // 2, kernel // 2), (0, kernel - 1), (kernel + 1, 1)}:
            if height + top + bottom >= kernel:
                outputs = (height + top + bottom - kernel) // stride + 1
                yield height, kernel, stride, top, outputs


def distributions(size):
    """Rows that each rank owns and needs, for many windows."""
    for height, kernel, stride, top, outputs in windows():
        owned = spans(height, size)
        needed = [reach(s, height, kernel, stride, top).rows for s in spans(outputs, size)]
        yield owned, needed


def seen_rows(span, height, kernel, stride, top):
    """By enumeration: every position that a range of outputs sees."""
    return [o * stride - top + t for o in range(*span) for t in range(kernel)]


@pytest.mark.parametrize("size", range(1, 10))
def test_reach_is_what_enumeration_sees(size):
    for height, kernel, stride, top, outputs in windows():
        for span in spans(outputs, size):
            got = reach(span, height, kernel, stride, top)
            seen = seen_rows(span, height, kernel, stride, top)
            # Rows between two windows, where the stride is larger than the kernel, count as seen.
            inside = [r for r in range(min(seen), max(seen) + 1) if 0 <= r < height] if seen else []
            if inside:
                assert got.rows == (min(inside), max(inside) + 1)
            else:
                assert got.rows[0] == got.rows[1]
            if not seen:
                assert (got.before, got.after) == (0, 0)
                continue
            # A local window over these rows with this padding has just these outputs.
            length = got.rows[1] - got.rows[0] + got.before + got.after
            assert (length - kernel) // stride + 1 == span[1] - span[0]
            assert got.before == len({row for row in range(min(seen), max(seen) + 1) if row < 0})
            assert (length - kernel) % stride == 0


def halo_collective(owned, needed):
    """What a halo exchange promises: the blocks of an alltoall, where they hold any row."""
    size = len(owned)
    meets = np.array([[common(owned[i], needed[j]) for j in range(size)] for i in range(size)])
    meets = (meets[..., 1] > meets[..., 0]) & ~np.eye(size, dtype=bool)
    none = np.zeros_like(meets)
    return Collective(
        "halo",
        lambda size, blocks: np.hstack([meets, none]),
        lambda size, blocks: np.hstack([none, meets.T]),
        ALLTOALL.sources,
        one_space=False,
    )


@pytest.mark.parametrize("size", range(1, 10))
def test_the_schedule_is_proved(size):
    for owned, needed in distributions(size):
        schedule = [halo(rank, owned, needed).rounds for rank in range(size)]
        check_matching([rounds[0] for rounds in schedule], 0, same_blocks=False)
        verify_schedule(halo_collective(owned, needed), schedule, 2 * size)
        turned = [adjoint(rounds) for rounds in schedule]
        check_matching([rounds[0] for rounds in turned], 0, same_blocks=False)


def test_a_schedule_that_lacks_a_message_is_refused():
    owned, needed = spans(8, 4), [(0, 3), (1, 5), (3, 7), (5, 8)]
    schedule = [[list(r) for r in halo(rank, owned, needed).rounds] for rank in range(4)]
    schedule[2][0] = [s for s in schedule[2][0] if not (isinstance(s, Recv) and s.peer == 1)]
    with pytest.raises(ScheduleError, match="rank 1, round 0: sends block 2 to rank 2"):
        verify_schedule(halo_collective(owned, needed), schedule, 8)


@pytest.mark.parametrize("size", range(1, 10))
def test_the_schedule_over_all_ranks_at_once_is_that_of_each(size):
    ranks = np.arange(size)
    for owned, needed in distributions(size):
        (vector,) = halo_schedule(owned, needed)(ranks, size)
        for rank in range(size):
            (mine,) = rounds_of(halo_schedule(owned, needed), rank, size)
            kept = [
                type(s)(int(s.peer[rank]), int(np.broadcast_to(s.block, size)[rank]))
                for s in vector
                if s.peer[rank] >= 0
            ]
            assert kept == mine


@pytest.mark.parametrize("size", range(1, 10))
def test_the_adjoint_of_the_schedule_passes_the_dot_test(size):
    rng = np.random.default_rng(size)
    for owned, needed in itertools.islice(distributions(size), 0, None, 7):
        forward = [halo(rank, owned, needed).rounds for rank in range(size)]
        generate = adjoint_of(halo_schedule(owned, needed))
        backward = [rounds_of(generate, rank, size) for rank in range(size)]
        x, y = rng.standard_normal((2, size, 2 * size, 3))
        left = np.vdot(interpret(forward, x), y)
        assert left == pytest.approx(np.vdot(x, interpret(backward, y)), rel=1e-12, abs=1e-12)


def carry(movements, parts, *, backward=False):
    """Carry movements out in one process: blocks are padded to one size for `interpret`."""
    size = len(movements)
    rows = max([1, *(n for m in movements for n in m.blocks)])
    blocks = len(movements[0].blocks)
    state = np.zeros((size, blocks, rows))
    for rank, (m, part) in enumerate(zip(movements, parts, strict=True)):
        for block, (a, b) in m.outputs if backward else m.inputs:
            state[rank, block, : b - a] = part[a:b]
    rounds = [adjoint(m.rounds) if backward else m.rounds for m in movements]
    state = interpret(rounds, state)
    results = []
    for rank, (m, part) in enumerate(zip(movements, parts, strict=True)):
        result = np.zeros(m.owned if backward else m.needed)
        here, there = (m.keep[1], m.keep[0]) if backward else m.keep
        result[slice(*there)] = part[slice(*here)]
        for block, (a, b) in m.inputs if backward else m.outputs:
            result[a:b] += state[rank, block, : b - a]
        results.append(result)
    return results


@pytest.mark.parametrize("size", range(1, 10))
def test_movements_bring_the_rows_and_take_derivatives_back(size):
    rng = np.random.default_rng(size)
    for owned, needed in distributions(size):
        x = rng.standard_normal(owned[-1][1])
        for movements, want in (
            ([halo(r, owned, needed) for r in range(size)], needed),
            ([gather(r, owned, allgather) for r in range(size)], [(0, x.size)] * size),
        ):
            got = carry(movements, [x[slice(*span)] for span in owned])
            for part, span in zip(got, want, strict=True):
                np.testing.assert_array_equal(part, x[slice(*span)])
            dy = [rng.standard_normal(part.shape) for part in got]
            dx = np.zeros(x.size)
            for part, span in zip(dy, want, strict=True):
                dx[slice(*span)] += part
            back = np.concatenate(carry(movements, dy, backward=True))
            np.testing.assert_allclose(back, dx, rtol=1e-12, atol=1e-12)


def test_a_halo_of_a_thin_block_comes_from_ranks_beyond_the_next():
    owned = spans(4, 4)
    needed = [reach(span, 4, 7, 1, 3).rows for span in owned]
    assert needed == [(0, 4)] * 4
    (steps,) = halo(0, owned, needed).rounds
    assert {s.peer for s in steps if isinstance(s, Send)} == {1, 2, 3}


def test_nothing_moves_where_every_rank_has_what_it_needs():
    owned = spans(9, 3)
    assert not halo(1, owned, owned).moves
    assert halo(2, owned, [(0, 4), *owned[1:]]).moves
    assert halo(2, owned, [(0, 4), *owned[1:]]).rounds == [[]]
