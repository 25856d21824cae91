"""What an algorithm may hand to the proof, and that the proof says so where it hands in more."""

import itertools
import operator

import numpy as np
import pytest

from collectives.collective import ALLGATHER, ALLREDUCE, ALLTOALL
from collectives.step import NULL, Recv, Reduce, Send, Zero, compact, scalar
from collectives.verify import ScheduleError, max_rounds, verify, verify_schedule

from .algorithms import made, named


def one_block(size):
    return 1


def exchange(rank, size):
    yield [Send(1 - rank, 0), Reduce(1 - rank, 0)]


def changed(first, last):
    """The exchange of two ranks, where rank 1 has other steps."""

    def generate(rank, size):
        yield [first, last] if rank == 1 else [Send(1, 0), Reduce(1, 0)]

    return made(generate, blocks=one_block)


def test_the_exchange_is_right():
    assert verify(made(exchange, blocks=one_block), 2).messages == 2
    assert verify(changed(Send(0, 0), Reduce(0, 0)), 2).messages == 2


@pytest.mark.parametrize("times", [2, 3, 4, 5, 4097])
def test_a_sum_that_is_taken_in_too_often_is_refused(times):
    def generate(rank, size):
        for _ in range(times):
            yield [Send(1, 0)] if rank == 0 else [Reduce(0, 0)]
        yield [Recv(1, 0)] if rank == 0 else [Send(0, 0)]

    more = f"{times - 1} times" if times == 2 else "2 or more times"
    with pytest.raises(ScheduleError, match=f"block 0 of rank 0 is there {more} more"):
        verify(made(generate, blocks=one_block), 2)


@pytest.mark.parametrize("doublings", [15, 16, 17, 32, 64])
def test_counts_do_not_wrap_around(doublings):
    # Each rank adds the other's sum to its own: 2 ** (k - 1) of each contribution after k rounds.
    def generate(rank, size):
        for _ in range(doublings + 1):
            yield from exchange(rank, size)

    with pytest.raises(ScheduleError, match="is there 2 or more times more"):
        verify(made(generate, blocks=one_block), 2)


def test_a_contribution_that_is_taken_in_65537_times_does_not_count_as_one():
    def generate(rank, size):
        for times in [4096] * 16 + [1]:
            yield [Send(1, 0)] * times if rank == 0 else [Reduce(0, 0)] * times
        yield [Recv(1, 0)] if rank == 0 else [Send(0, 0)]

    with pytest.raises(ScheduleError, match="block 0 of rank 0 is there 2 or more times more"):
        verify(made(generate, blocks=one_block), 2)


@pytest.mark.parametrize("times", [65537, 1 << 15])
def test_counts_do_not_wrap_around_within_a_round(times):
    def generate(rank, size):
        yield [Send(1, 0)] * times if rank == 0 else [Reduce(0, 0)] * times
        yield [Recv(1, 0)] if rank == 0 else [Send(0, 0)]

    with pytest.raises(ScheduleError, match="rank 1, round 0: reduces into block 0 more than 8192"):
        verify(made(generate, blocks=one_block), 2)


@pytest.mark.parametrize(
    "step",
    [Send(1.0, 0), Send(0, 0.5), Recv(0, 0, 1.5), Reduce(np.array(1.0), 0), Zero(np.float64(0))],
)
def test_a_step_with_a_fraction_is_no_step(step):
    with pytest.raises(TypeError):
        scalar(step)
    with pytest.raises(TypeError):
        compact([[step]])


def test_integers_of_numpy_are_ints():
    step = Send(np.where(np.array(2) > 1, 3, NULL), np.int64(4), np.array(5, np.uint8))
    plain = scalar(step)
    assert plain == Send(3, 4, 5)
    assert {type(v) for v in (plain.peer, plain.block, plain.count)} == {int}


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (Reduce(0.0, 0), r"Reduce\(peer=0.0, block=0, count=1\) holds what is not one whole"),
        (Reduce(0, 0.25), r"Reduce\(peer=0, block=0.25, count=1\) holds what is not one whole"),
        (Reduce(0, 0, 1.0), r"Reduce\(peer=0, block=0, count=1.0\) holds what is not one whole"),
        (Reduce(np.arange(2), 0), r"Reduce\(peer=array.* holds what is not one whole number"),
        (Reduce("0", 0), r"Reduce\(peer='0', .* holds what is not one whole number"),
        (Reduce(0, 0, -1), r"Reduce\(peer=0, block=0, count=-1\) has a count below 0"),
        (Zero(0, -2), r"Zero\(block=0, count=-2\) has a count below 0"),
        (None, "holds None; needs Send, Recv, Reduce or Zero"),
        ((0, 0), r"holds \(0, 0\); needs Send, Recv, Reduce or Zero"),
        (Send, "holds <class .*; needs Send, Recv, Reduce or Zero"),
    ],
)
def test_a_wrong_step_is_refused_with_its_place(last, message):
    with pytest.raises(
        ScheduleError, match=rf"^allreduce made, 2 ranks: rank 1, round 0: {message}"
    ):
        verify(changed(Send(0, 0), last), 2)
    with pytest.raises(ScheduleError, match=rf"^rank 1, round 0: {message}"):
        verify_schedule(ALLREDUCE, [list(exchange(0, 2)), [[Send(0, 0), last]]], 1)


@pytest.mark.parametrize("steps", [None, 3, Send(0, 0), "steps", (Send(0, 0), Reduce(0, 0))])
def test_a_round_that_is_no_list_is_refused(steps):
    def generate(rank, size):
        yield []
        yield steps

    with pytest.raises(ScheduleError, match=r"rank 0, round 1: is .*; needs a list of steps"):
        verify(made(generate, blocks=one_block), 2)


def test_a_generator_that_returns_nothing_is_refused():
    with pytest.raises(ScheduleError, match=r"2 ranks: rank 0, round 0: .*NoneType"):
        verify(made(lambda rank, size: None, blocks=one_block), 2)


def test_a_generator_that_raises_is_refused():
    def generate(rank, size):
        yield from exchange(rank, size)
        if rank == 1:
            raise KeyError("no such rank")

    with pytest.raises(ScheduleError, match="rank 1, round 1: the generator raises KeyError") as e:
        verify(made(generate, blocks=one_block), 2)
    assert e.value.__cause__ is not None

    with pytest.raises(ScheduleError, match="rank 0, round 0: the generator raises ZeroDivision"):
        verify(made(lambda rank, size: 1 // 0, blocks=one_block), 2)


@pytest.mark.parametrize("size", [1, 3])
def test_a_generator_without_an_end_is_refused(size):
    most = 64 * size + 4096
    assert max_rounds(size) == most

    def endless(rank, size):
        yield from itertools.repeat([])

    with pytest.raises(ScheduleError, match=f"rank 0, round {most}: the generator goes on"):
        verify(made(endless, blocks=one_block), size)


def test_the_most_rounds_are_allowed():
    def long(rank, size):
        yield from itertools.repeat([], 64 * size + 4096)

    assert verify(made(long, blocks=one_block), 1).rounds == 4160


@pytest.mark.parametrize("size", [0, -1, -5])
def test_no_ranks(size):
    with pytest.raises(ValueError, match=f"^size={size}: needs at least 1$") as caught:
        verify(named("ring"), size)
    assert not isinstance(caught.value, ScheduleError)
    with pytest.raises(ValueError, match=r"^schedule: is empty"):
        verify_schedule(ALLREDUCE, [], 1)


@pytest.mark.parametrize("size", [2.0, "2", None, np.array([2, 3])])
def test_a_size_that_is_no_int(size):
    with pytest.raises(TypeError, match=r"^size="):
        verify(named("ring"), size)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (lambda size: -1, r"blocks\(2\)=-1: needs at least 1"),
        (lambda size: 0, r"blocks\(2\)=0: needs at least 1"),
        (lambda size: 1.0, r"blocks\(2\)=1.0: needs an int"),
        (lambda size: None, r"blocks\(2\)=None: needs an int"),
        (lambda size: {}[size], r"KeyError\(2\)"),
    ],
)
def test_blocks_that_are_no_number_are_refused(blocks, message):
    with pytest.raises(ScheduleError, match=f"^allreduce made, 2 ranks: {message}"):
        verify(made(exchange, blocks=blocks), 2)


@pytest.mark.parametrize(
    ("collective", "blocks"), [(ALLGATHER, 1), (ALLGATHER, 3), (ALLTOALL, 1), (ALLTOALL, 3)]
)
def test_blocks_that_do_not_suit_the_collective_are_refused(collective, blocks):
    with pytest.raises(ScheduleError, match=f"{collective.name} cannot be done with {blocks} bloc"):
        verify(made(exchange, collective, lambda size: blocks), 2)


def test_a_proof_that_does_not_fit_into_memory_is_refused():
    with pytest.raises(ValueError, match="512 ranks with 1024 blocks: a proof needs 274877906944"):
        verify(named("pairwise", ALLTOALL), 512)
    assert verify(named("recursive_doubling"), 512).rounds == 9


def test_a_rank_may_be_an_integer_of_numpy():
    assert verify(named("ring"), np.int64(3)).size == operator.index(3)
