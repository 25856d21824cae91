import pytest

from collectives.collective import ALLREDUCE, ALLTOALL, BCAST
from collectives.step import NULL, Recv, Reduce, Send, Zero, rounds_of
from collectives.verify import ScheduleError, verify

from .algorithms import every_algorithm, made, named


@every_algorithm
def test_every_algorithm_is_proved_for_1_to_33_ranks(algorithm):
    for size in range(1, 34):
        proof = verify(algorithm, size)
        assert proof.size == size
        assert (proof.messages == 0) == (size == 1)


def broken(rank, k, change, base="ring"):
    """The ring, or another, with the steps of one rank in one round changed."""
    original = named(base)

    def generate(r, size):
        for j, steps in enumerate(rounds_of(original.generate, r, size)):
            yield change(steps) if (r, j) == (rank, k) else steps

    return made(generate, blocks=original.blocks)


# In the ring of 4 ranks, rank 2 in round 1 sends block 0 to rank 3 and reduces block 3 of rank 1.


def test_the_schedule_that_is_broken_below():
    assert rounds_of(named("ring").generate, 2, 4)[1] == [Send(3, 0), Reduce(1, 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda s: [Send(1, 0), s[1]],
            r"rank 2, round 1: sends block 0 to rank 1, which does not receive it",
            id="wrong peer to send to",
        ),
        pytest.param(
            lambda s: [s[0], Reduce(0, 3)],
            r"rank 2, round 1: waits for block 3 from rank 0, which does not send it",
            id="wrong peer to receive from",
        ),
        pytest.param(
            lambda s: [Send(4, 0), s[1]],
            r"rank 2, round 1: block 0 has no such peer: 4",
            id="no such peer",
        ),
        pytest.param(
            lambda s: [s[0], Reduce(1, 2)],
            r"rank 2, round 1: takes block 2 from rank 1, which sends block 3",
            id="wrong block",
        ),
        pytest.param(
            lambda s: [s[0], Reduce(1, 3, 2)],
            r"rank 2, round 1: blocks 3\.\.4 is outside 0\.\.3",
            id="block beyond the last",
        ),
        pytest.param(
            lambda s: [],
            r"rank 1, round 1: sends block 3 to rank 2, which does not receive it",
            id="missing round of one rank",
        ),
        pytest.param(
            lambda s: [*s, Recv(1, 0)],
            r"rank 2, round 1: stores into block 0 and sends it",
            id="store into a block that is sent",
        ),
        pytest.param(
            lambda s: [*s, Recv(1, 3)],
            r"rank 2, round 1: writes block 3 twice",
            id="double write",
        ),
        pytest.param(
            lambda s: [s[0], Recv(1, 3)],
            r"rank \d, block 3 \(last written in round \d\) at the end: "
            r"block 3 of rank 2 is missing",
            id="stored where it should be added",
        ),
        pytest.param(
            lambda s: [*s, Zero(2)],
            r"rank \d, block 2 \(last written in round \d\) at the end: "
            r"block 2 of rank 2 is missing",
            id="cleared",
        ),
    ],
)
def test_a_broken_ring_is_refused(change, message):
    with pytest.raises(ScheduleError, match=rf"^allreduce made, 4 ranks: {message}"):
        verify(broken(2, 1, change), 4)


@pytest.mark.parametrize("missing", range(6))
def test_a_ring_without_one_round_is_refused(missing):
    def generate(rank, size):
        rounds = rounds_of(named("ring").generate, rank, size)
        yield from rounds[:missing] + rounds[missing + 1 :]

    with pytest.raises(
        ScheduleError, match=r"rank \d, block \d \((last written in round \d|never written)\)"
    ):
        verify(made(generate), 4)


def test_a_wrong_block_on_both_sides_is_refused():
    def generate(rank, size):
        for k, steps in enumerate(rounds_of(named("ring").generate, rank, size)):
            if k == 1 and rank == 2:
                yield [Send(3, 1), steps[1]]
            elif k == 1 and rank == 3:
                yield [steps[0], Reduce(2, 1)]
            else:
                yield steps

    with pytest.raises(ScheduleError, match=r"rank 0, block 0 \(last written in round \d\)"):
        verify(made(generate), 4)


def test_a_contribution_that_counts_twice_is_refused():
    def generate(rank, size):
        yield [Send(1 - rank, 0), Reduce(1 - rank, 0)]
        yield [Send(1 - rank, 0), Reduce(1 - rank, 0)]

    with pytest.raises(
        ScheduleError, match=r"rank 0, block 0 .* block 0 of rank 0 is there 1 times more"
    ):
        verify(made(generate, blocks=lambda size: 1), 2)


def test_ranks_with_different_numbers_of_rounds_are_refused():
    def generate(rank, size):
        yield from rounds_of(named("tree").generate, rank, size)
        if rank == 1:
            yield []

    with pytest.raises(ScheduleError, match="rank 0: has 4 rounds where rank 1 has 5"):
        verify(made(generate, blocks=lambda size: 1), 3)


def test_sending_what_is_not_there_is_refused():
    def generate(rank, size):
        yield [Send(0, 0)] if rank == 1 else [Recv(1, 0)]

    with pytest.raises(ScheduleError, match="rank 1, round 0: sends block 0, which holds nothing"):
        verify(made(generate, BCAST, lambda size: 1), 2)


def test_an_output_that_was_never_written_is_refused():
    def generate(rank, size):
        yield []

    with pytest.raises(
        ScheduleError, match=r"rank 1, block 0 \(never written\) at the end: holds nothing"
    ):
        verify(made(generate, BCAST, lambda size: 1), 2)


def test_a_block_for_another_rank_is_refused():
    def generate(rank, size):
        other = 1 - rank
        yield [Send(rank, other), Recv(rank, size + rank)]
        yield [Send(other, other), Recv(other, size + other)]

    with pytest.raises(ScheduleError, match=r"rank 0, block 2 .*: block 0 of rank 0 is missing"):
        verify(made(generate, ALLTOALL, lambda size: 2 * size), 2)


def test_reducing_into_a_block_that_is_sent_is_allowed():
    def generate(rank, size):
        peer = 1 - rank if size == 2 else NULL
        yield [Send(peer, 0), Reduce(peer, 0)]

    assert verify(made(generate, ALLREDUCE, lambda size: 1), 2).messages == 2
