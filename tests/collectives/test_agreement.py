"""Ranks that do not make the same call are told so, all of them, and soon."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from mpi4py import MPI

import collectives
from collectives import bind
from collectives.agreement import AgreementError, agree, agree_counts, checked, refuse
from collectives.disagreement import Call, complaint, list_ranks, shortened
from collectives.executors.native import numba_is_there
from collectives.fusion import plan_allreduce_many
from tests.collectives.cases import EXECUTORS
from tests.collectives.jobs import PREFIXES, run_job

OPS = collectives.SUM, collectives.MAX


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([1], "rank 1"),
        ([2, 0, 3], "ranks 0, 2, 3"),
        ([0, 1, 2, 3, 5], "ranks 0-3, 5"),
        (range(9999), "ranks 0-9998"),
    ],
)
def test_ranks_as_words(ranks, text):
    assert list_ranks(ranks) == text


def test_a_complaint_names_what_differs_and_who_has_what():
    def calls(*dtypes, collective="allreduce"):
        return {r: Call(collective, {"dtype": d, "root": "0"}) for r, d in enumerate(dtypes)}

    assert complaint(calls("float32", "float32"), [], [], 10) == ""
    assert complaint(calls("float32", "float64", "float32", "float32"), [], [], 10) == (
        "allreduce: ranks disagree: dtype: float32 on ranks 0, 2, 3; float64 on rank 1"
    )
    both = calls("f", "f")
    both[1] = Call("bcast", {"dtype": "g"})
    assert complaint(both, [], [], 10) == (
        "ranks disagree: collective: allreduce on rank 0; bcast on rank 1"
    )
    both[1] = Call("allreduce", {"dtype": "g"})
    assert complaint(both, [2], [3], 0.5) == (
        "allreduce: ranks disagree: dtype: f on rank 0; g on rank 1. root: 0 on rank 0; not given "
        "on rank 1. rank 2 did not come within 0.5 s. rank 3 waited no longer for rank 0"
    )
    both[1] = Call("allreduce", {}, "TypeError: no")
    assert complaint(both, [], [], 10) == "allreduce: rank 1 refuses the call: TypeError: no"
    many = calls(*map(str, range(100)))
    assert complaint(many, [], [], 10).endswith("3 on rank 3; 96 other values")


def test_long_values_are_cut_and_still_told_apart():
    first, second = shortened("7, " * 1000), shortened("7, " * 999 + "8, ")
    assert first != second
    assert len(first) < 500
    assert shortened("7, 8") == "7, 8"


@pytest.mark.ranks(1, 2, 5, every_mpi=True)
def test_the_same_call_passes_again_and_again(comm):
    for k in range(200):
        agree(comm, "allreduce", {"shape": (k, 3), "dtype": np.dtype("f4"), "op": collectives.SUM})


def raises_everywhere(comm, text, call):
    """The same error on all ranks, in under a second; the exchange still works afterwards."""
    comm.Barrier()
    begin = time.monotonic()
    with pytest.raises(AgreementError) as caught:
        call()
    assert time.monotonic() - begin < 1
    said = str(caught.value)
    assert text in said
    assert len(set(comm.allgather(said))) == 1
    agree(comm, "barrier", {})


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
@pytest.mark.parametrize("odd", [0, -1])
def test_what_differs_is_named_with_both_values(comm, odd):
    odd %= comm.size
    mine = comm.rank == odd
    others = list_ranks([r for r in range(comm.size) if r != odd])
    plain = {
        "shape": (3, 4),
        "dtype": "float32",
        "op": "SUM",
        "root": 0,
        "algorithm": "ring",
    }
    other = {
        "shape": (12,),
        "dtype": "float64",
        "op": "MAX",
        "root": 1,
        "algorithm": "chain:segments=8",
    }
    for name, value in other.items():
        arguments = plain | ({name: value} if mine else {})
        parts = [f"{plain[name]} on {others}", f"{value} on rank {odd}"]
        parts = parts[::-1] if odd == 0 else parts
        raises_everywhere(
            comm,
            f"allreduce: ranks disagree: {name}: {'; '.join(parts)}",
            lambda a=arguments: agree(comm, "allreduce", a),
        )
    parts = [f"allreduce on {others}", f"bcast on rank {odd}"]
    parts = parts[::-1] if odd == 0 else parts
    raises_everywhere(
        comm,
        f"ranks disagree: collective: {'; '.join(parts)}",
        lambda: agree(comm, "bcast" if mine else "allreduce", plain),
    )


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_calls_in_another_order(comm):
    order = ["allreduce", "bcast"] if comm.rank else ["bcast", "allreduce"]
    for name in order:
        raises_everywhere(
            comm,
            "ranks disagree: collective: bcast on rank 0; allreduce on"
            if name == order[0]
            else "ranks disagree: collective: allreduce on rank 0; bcast on",
            lambda name=name: agree(comm, name, {}),
        )


@checked
def double(x, *, comm, check=False):
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x: is a {type(x).__name__}")
    if check:
        agree(comm, "double", {"dtype": x.dtype})
    if x.size == 13:
        raise ValueError("x: is unlucky, which is found too late")
    return 2 * x


@checked
def quadruple(x, *, comm, check=False):
    if x is None:
        raise ValueError("x: is None")
    return double(double(x, comm=comm, check=check), comm=comm, check=check)


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
def test_an_error_of_one_rank_is_raised_on_all(comm):
    x = np.ones(3)
    for odd in {0, comm.size - 1}:
        for function, bad, text in (
            (double, [1.0], "TypeError: x: is a list"),
            (quadruple, [1.0], "TypeError: x: is a list"),
            (quadruple, None, "ValueError: x: is None"),
        ):
            comm.Barrier()
            begin = time.monotonic()
            if comm.rank == odd:
                with pytest.raises((TypeError, ValueError), match=text.split(": ", 1)[1]) as caught:
                    function(bad, comm=comm, check=True)
                assert not isinstance(caught.value, AgreementError)
            else:
                with pytest.raises(AgreementError, match=f"rank {odd} refuses the call: {text}"):
                    function(x, comm=comm, check=True)
            assert time.monotonic() - begin < 1
            np.testing.assert_array_equal(quadruple(x, comm=comm, check=True), 4 * x)
    # Where it is found only after the exchange, nobody waits for the others again.
    begin = time.monotonic()
    if comm.rank == 0:
        with pytest.raises(ValueError, match="too late"):
            double(np.ones(13), comm=comm, check=True)
    else:
        double(np.ones(12), comm=comm, check=True)
    assert time.monotonic() - begin < 1
    with pytest.raises(TypeError, match="comm: is a NoneType"):
        double(x, comm=None, check=True)


@pytest.mark.ranks(2, 3, 4, every_mpi=True)
@pytest.mark.parametrize("late", [0, 1])
def test_a_rank_that_comes_late_and_those_that_did_not_wait(comm, late):
    agree(comm, "barrier", {})
    if comm.rank == late:
        time.sleep(1.0)
    text = f"rank {late} did not come within 0.3 s"
    if late == comm.rank == 0:
        text = f"{list_ranks(range(1, comm.size))} waited no longer for rank 0"
    begin = time.monotonic()
    with pytest.raises(AgreementError, match=text) as caught:
        agree(comm, "allreduce", {"dtype": "float32"}, timeout=0.3)
    assert "this rank's call: allreduce(dtype=float32)" in str(caught.value)
    assert time.monotonic() - begin < 1
    # All have heard of the failure, so they go on together.
    for _ in range(3):
        agree(comm, "bcast", {})


@pytest.mark.ranks(3, every_mpi=True)
def test_ranks_that_have_given_up_several_calls(comm):
    agree(comm, "barrier", {})
    if comm.rank == 0:
        time.sleep(1.2)
    for k in range(3):
        text = "ranks 1, 2 waited no longer" if comm.rank == 0 else "rank 0 did not come"
        with pytest.raises(AgreementError, match=text):
            agree(comm, "allreduce", {"k": k}, timeout=0.3)
    agree(comm, "allreduce", {"k": 3})


@pytest.mark.ranks(2, 4, every_mpi=True)
def test_rank_0_that_waits_itself_is_waited_for(comm):
    """It has come, so it is not said to be missing, and who is missing is named."""
    agree(comm, "barrier", {})
    last = comm.size - 1
    time.sleep({0: 0.3, last: 1.5}.get(comm.rank, 0))
    with pytest.raises(AgreementError, match=f"rank {last} did not come within 0.5 s"):
        agree(comm, "allreduce", {}, timeout=0.5)


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_the_first_call_on_a_communicator_has_a_time_limit_too(comm):
    own = comm.Dup()
    if comm.rank == 1:
        time.sleep(0.8)
    else:
        with pytest.raises(AgreementError, match=r"allreduce: not all ranks came within 0\.3 s"):
            agree(own, "allreduce", {}, timeout=0.3)
    agree(own, "allreduce", {})
    own.Free()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_runs_in_flight_go_on_while_ranks_compare_their_calls(comm):
    x = np.full(300_000, comm.rank + 1.0)
    with collectives.plan_allreduce(x, comm=comm, algorithm="ring", executor="python") as plan:
        plan.start()
        if comm.rank:
            plan.wait()
        agree(comm, "barrier", {})
        if comm.rank == 0:
            plan.wait()
    assert (x == comm.size * (comm.size + 1) / 2).all()


@pytest.mark.ranks(1, 2, 4, every_mpi=True)
def test_counts_that_do_not_match(comm):
    p, r = comm.size, comm.rank
    send, receive = [r + 10 * s for s in range(p)], [s + 10 * r for s in range(p)]
    agree_counts(comm, "alltoall", send, receive)
    begin = time.monotonic()
    if r == p - 1:
        receive[0] += 1
    with pytest.raises(AgreementError, match=rf"recvcounts\[0\] is {10 * p - 9} on rank {p - 1}, "):
        agree_counts(comm, "alltoall", send, receive)
    assert time.monotonic() - begin < 1


@pytest.mark.ranks(1)
def test_one_rank_alone_agrees_with_itself(comm):
    agree(comm, "allreduce", {"dtype": "float32"})
    refuse(comm, "allreduce", ValueError("no"))
    with pytest.raises(TypeError, match="communicator"):
        agree("world", "allreduce", {})


@pytest.mark.parametrize("mpi", PREFIXES)
@pytest.mark.parametrize("way", ["ends", "unchecked"])
def test_a_rank_that_never_comes(tmp_path, pytestconfig, mpi, way):
    done, seconds = run_job(
        tmp_path,
        pytestconfig,
        mpi,
        3,
        f"""
        import numpy as np
        from mpi4py import MPI
        from collectives import abort_on_exception, allreduce
        from collectives.agreement import agree
        comm = MPI.COMM_WORLD
        x = np.ones(3)
        with abort_on_exception(comm):
            allreduce(x, comm=comm)
            if comm.rank != 2:
                agree(comm, "bcast", {{"root": 0}}, timeout=1)
            elif {way!r} == "unchecked":
                allreduce(x, comm=comm)
        """,
    )
    assert done.returncode != 0
    assert "rank 2 did not come within 1 s (this rank's call: bcast(root=0))" in done.stderr
    assert seconds < 15


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda x, odd, **options: collectives.allreduce(x[odd:], **options),
            "allreduce: ranks disagree: shape: (4,) on rank 0; (3,) on rank 1",
        ),
        (
            lambda x, odd, **options: collectives.reduce(x, op=OPS[odd], root=odd, **options),
            "reduce: ranks disagree: op: SUM on rank 0; MAX on rank 1. root: 0 on rank 0; 1 on "
            "rank 1",
        ),
        (
            lambda x, odd, **options: (collectives.bcast, collectives.allreduce)[odd](x, **options),
            "ranks disagree: collective: bcast on rank 0; allreduce on rank 1",
        ),
    ],
)
def test_nothing_but_what_differs_is_told(comm, call, says):
    with pytest.raises(AgreementError) as caught:
        call(np.ones(4), comm.rank, comm=comm, check=True)
    assert str(caught.value) == says


@pytest.mark.ranks(1)
def test_a_call_has_what_matters_for_it(comm, monkeypatch):
    told = {}
    monkeypatch.setattr(bind, "agree", lambda comm, name, call: told.update({name: [*call]}))
    x, options = np.ones(4), {"comm": comm, "check": True}
    collectives.allreduce(x, **options)
    collectives.bcast(x, **options)
    collectives.reduce(x, **options)
    rest = ["algorithm", "executor", "background", "table", "timeout"]
    assert told == {
        "allreduce": ["dtype", "shape", "op", "deterministic", *rest],
        "bcast": ["dtype", "shape", "root", *rest],
        "reduce": ["dtype", "shape", "op", "root", *rest],
    }


@pytest.mark.ranks(2, 3)
def test_operations_of_one_name_and_options_of_some_ranks_differ(comm):
    larger = collectives.Op("BEST", lambda xp, a, b, out: xp.maximum(a, b, out=out))
    smaller = collectives.Op("BEST", lambda xp, a, b, out: xp.minimum(a, b, out=out))
    own_sum = collectives.Op("SUM", lambda xp, a, b, out: xp.add(a, b, out=out))
    x, odd = np.ones(3), comm.rank == 1
    for ops in ((larger, smaller), (collectives.SUM, own_sum)):
        with pytest.raises(collectives.AgreementError, match=r"op: .* code [0-9a-f]{8}"):
            collectives.allreduce(x, op=ops[odd], comm=comm, check=True)
    if numba_is_there() and MPI.Query_thread() == MPI.THREAD_MULTIPLE:
        with pytest.raises(collectives.AgreementError, match=r"background: .*False.*True"):
            collectives.allreduce(x, comm=comm, background=odd, check=True)
    collectives.allreduce(x, op=larger, comm=comm, check=True)
    assert (x == 1).all()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    "call",
    [
        collectives.allreduce,
        collectives.plan_allreduce,
        lambda x, **options: plan_allreduce_many([x, x + 1], **options),
        lambda x, **options: collectives.plan_neighbor([x], [0], [], [], **options),
    ],
    ids=["allreduce", "plan_allreduce", "plan_allreduce_many", "plan_neighbor"],
)
def test_some_ranks_have_a_limit_and_some_a_wrong_one(comm, call, executor):
    if executor == "shared":
        executor = "auto"  # which a neighbour exchange takes, too
    x, options = np.ones(3), {"comm": comm, "check": True, "executor": executor}
    odd = comm.rank == comm.size - 1
    with pytest.raises(AgreementError, match=r"ranks disagree: timeout: None on rank.*; one on"):
        call(x, timeout=20 if odd else None, **options)
    with pytest.raises(ValueError, match="timeout=0: needs a number of seconds above 0"):
        call(x, timeout=0 if odd else 20, **options)


@pytest.mark.ranks(2)
def test_ctrl_c_while_calls_are_compared_breaks_the_communicator(comm):
    own = comm.Dup()  # not freed: what rank 1 has sent is never received
    collectives.allreduce(np.ones(3), comm=own, check=True)
    if comm.rank == 1:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            collectives.allreduce(np.ones(3), comm=own, check=True)
        signal.signal(signal.SIGINT, before)
        for check in (False, True):
            with pytest.raises(RuntimeError, match="interrupted by KeyboardInterrupt"):
                collectives.allreduce(np.ones(3), comm=own, check=check)
    comm.Barrier()


@pytest.mark.ranks(2, 3, every_mpi=True)
def test_every_collective_takes_check(comm):
    p, last = comm.size, comm.rank == comm.size - 1
    x, out = np.ones(4 * p), np.empty(4 * p)
    part, options = np.ones(4), {"comm": comm, "check": True}
    right = [
        lambda: collectives.allreduce(x, out, **options),
        lambda: collectives.reduce(x, out, root=1, **options),
        lambda: collectives.bcast(x, 1, **options),
        lambda: collectives.reduce_scatter(x, part, **options),
        lambda: collectives.allgather(part, out, **options),
        lambda: collectives.alltoall(x, out, **options),
        lambda: collectives.gather(part, out, **options),
        lambda: collectives.scatter(x, part, **options),
        lambda: collectives.barrier(**options),
    ]
    for call in right:
        call()
    wrong = [
        (
            "dtype: float64 on",
            lambda: collectives.allreduce(x.astype("f4") if last else x, **options),
        ),
        (
            "op: SUM on",
            lambda: collectives.allreduce(
                x, op=(collectives.SUM, collectives.MAX)[last], **options
            ),
        ),
        ("root: 0 on", lambda: collectives.bcast(x, int(last), **options)),
        ("shape: ", lambda: collectives.allreduce(x[last:], **options)),
        (
            "algorithm: ring on",
            lambda: collectives.allreduce(x, algorithm=("ring", "rabenseifner")[last], **options),
        ),
        ("collective: allreduce on", right[2] if last else right[0]),
        ("collective: barrier on", right[4] if last else right[8]),
        (
            "recvcounts",
            lambda: collectives.alltoall(
                x,
                out,
                sendcounts=[4] * p,
                recvcounts=[5, 3, *[4] * p][:p] if last else [4] * p,
                **options,
            ),
        ),
        (
            f"rank {p - 1} refuses the call: TypeError: ",
            lambda: collectives.bcast([1.0] if last else x, **options),
        ),
    ]
    for text, call in wrong:
        begin = time.monotonic()
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert time.monotonic() - begin < 1
        if last and "refuses" in text:
            text = "buffer: is a list"
        assert text in str(caught.value)
        right[0]()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("of", ["call", "plan"])
def test_sums_of_which_only_some_have_the_same_bits_on_any_ranks_differ_in_just_that(comm, of):
    """The message is about what was called, not about how it is done."""
    x = np.ones(5)
    call = {"call": collectives.allreduce, "plan": collectives.plan_allreduce}[of]
    odd = comm.rank == 1
    with pytest.raises(AgreementError) as told:
        call(x, deterministic="ranks" if odd else "run", comm=comm, check=True)
    others = "rank 0" if comm.size == 2 else "ranks 0, 2"
    text = f"allreduce: ranks disagree: deterministic: run on {others}; ranks on rank 1"
    assert str(told.value) == text
    # A mistake in the arguments goes by the same name.
    wrong = np.ones(5, int) if odd else x
    with pytest.raises(TypeError if odd else AgreementError, match=None if odd else "^allreduce: "):
        call(wrong, deterministic="ranks", comm=comm, check=True)
