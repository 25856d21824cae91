"""A schedule as a program of numbers, and the compiled loop that runs it.

A program is an int64 array of rows: an operation, two places (region, offset, length), two peers.
Addresses are offsets into regions whose base addresses stand in a table: so a program that was
made once runs on any buffers of the same lengths.

The state of a run is an int64 array, with the fields below; handles and functions of MPI are in it
as numbers. `run` goes on until all is done, or until it would have to wait and may not.
"""

from __future__ import annotations

from numba import carray, njit, types

from collectives.executors.intrinsics import (
    call_kernel,
    call_post,
    call_sendrecv,
    call_testall,
    call_waitall,
    clear_bytes,
    copy_bytes,
    load_acquire,
    pointer_i64,
    store_release,
)

END, EXCHANGE, RECEIVE, SEND, WAIT, REDUCE, COPY, CLEAR = range(8)
"""The operations.

- EXCHANGE: send the first place to the first peer, receive the second from the second; as two
  requests, or in one blocking call that skips the WAIT behind it.
- RECEIVE, SEND: post a request for the first place; ``slot`` says which.
- WAIT: for the first ``slot`` requests.
- REDUCE: the first place becomes ``first op second``, or ``second op first`` where the second peer
  is 1; its length is in elements.
- COPY: the first place becomes a copy of the second.
- CLEAR: the first place becomes zero.
"""

WIDTH = 9
"""Numbers in a row: operation, region, offset, length, peer, region, offset, length, peer; a
``slot`` stands in the place of the second peer."""

(
    NEXT,
    PROGRAM,
    BASES,
    REQUESTS,
    REQUEST_BYTES,
    STATUSES,
    COMM,
    BYTE,
    TAG,
    OPERATION,
    REVERSED,
    KERNEL,
    MAY_WAIT,
    FLAG,
    ERROR,
    SENDRECV,
    ISEND,
    IRECV,
    WAITALL,
    TESTALL,
    FIELDS,
) = range(21)
"""The fields of the state. FLAG is memory for MPI's answer; ERROR is the code of what failed."""


_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))


@njit("int64(int64)", nogil=True, cache=True, error_model="numpy")
def run(address: int) -> int:
    """Run the program of a state, at its address; return 1 when it is done, 0 if it must wait.

    A new run begins with NEXT at 0, where a finished one leaves it.
    On an error of MPI the return value is -1, and the state holds its code.
    """
    state = carray(pointer_i64(address), FIELDS)
    bases = carray(pointer_i64(state[BASES]), 1 << 30)
    comm, byte, tag, status = state[COMM], state[BYTE], state[TAG], state[STATUSES]
    requests, request_bytes = state[REQUESTS], state[REQUEST_BYTES]
    k = state[NEXT]
    may_wait = state[MAY_WAIT] != 0
    while True:
        row = carray(pointer_i64(state[PROGRAM] + 8 * WIDTH * k), WIDTH)
        op = row[0]
        if op == END:
            state[NEXT] = 0
            return 1
        first = bases[row[1]] + row[2]
        second = bases[row[5]] + row[6]
        error = 0
        if op == EXCHANGE:
            if may_wait:
                error = call_sendrecv(
                    state[SENDRECV], first, row[3], byte, row[4], tag,
                    second, row[7], byte, row[8], tag, comm, status,
                )  # fmt: skip
                k += 1  # over the WAIT
            else:
                error = call_post(state[IRECV], second, row[7], byte, row[8], tag, comm, requests)
                if error == 0:
                    slot = requests + request_bytes
                    error = call_post(state[ISEND], first, row[3], byte, row[4], tag, comm, slot)
        elif op == RECEIVE:
            slot = requests + request_bytes * row[8]
            error = call_post(state[IRECV], first, row[3], byte, row[4], tag, comm, slot)
        elif op == SEND:
            slot = requests + request_bytes * row[8]
            error = call_post(state[ISEND], first, row[3], byte, row[4], tag, comm, slot)
        elif op == WAIT:
            if may_wait:
                error = call_waitall(state[WAITALL], row[8], requests, status)
            else:
                error = call_testall(state[TESTALL], row[8], requests, address + 8 * FLAG, status)
                if error == 0 and (load_acquire(address + 8 * FLAG) & 0xFFFFFFFF) == 0:
                    state[NEXT] = k
                    return 0
        elif op == REDUCE:
            operation = state[OPERATION] if row[8] == 0 else state[REVERSED]
            call_kernel(state[KERNEL], operation, first, second, row[3])
        elif op == COPY:
            copy_bytes(first, second, row[3])
        else:
            clear_bytes(first, row[3])
        if error != 0:
            state[NEXT] = k
            state[ERROR] = error
            return -1
        k += 1


_sem_wait = types.ExternalFunction("sem_wait", types.int32(types.int64))
_sem_trywait = types.ExternalFunction("sem_trywait", types.int32(types.int64))
_sem_post = types.ExternalFunction("sem_post", types.int32(types.int64))

QUEUE = 1 << 15
"""How many runs may wait for the thread: a communicator has fewer tags, and so fewer plans."""

SEMAPHORE = 8
"""Numbers that a semaphore of C takes, at most."""

MAILBOX = SEMAPHORE + 2 * QUEUE
"""Numbers in a mailbox: a semaphore, a ring of addresses of jobs, and those that are under way."""

(JOB_STATE, JOB_RESULT, JOB_DONE, JOB_FINISHED) = range(4)
"""The fields of a job for `serve`: the address of its state, what `run` returned, and whether it is
finished; from JOB_FINISHED on it is a semaphore, which is touched last."""


@njit("int64(int64, int64)", nogil=True, cache=True, error_model="numpy")
def serve(mailbox: int, pause: int) -> int:
    """Run jobs until there is one at address 0; for a thread of its own.

    All that have come are under way at the same time, as ranks may start them in any order.

    Args:
        mailbox: the address of MAILBOX numbers.
        pause: microseconds to sleep whenever all jobs must wait for messages.
    """
    active = carray(pointer_i64(mailbox + 8 * (SEMAPHORE + QUEUE)), QUEUE)
    taken = count = 0
    last = False
    while not last or count > 0:
        while not last:
            if count > 0:
                if _sem_trywait(mailbox) != 0:
                    break
            elif _sem_wait(mailbox) != 0:  # a signal has come
                continue
            job = load_acquire(mailbox + 8 * (SEMAPHORE + taken % QUEUE))
            taken += 1
            if job == 0:
                last = True
            else:
                active[count] = job
                count += 1
        left = 0
        for i in range(count):
            job = active[i]
            fields = carray(pointer_i64(job), JOB_FINISHED)
            said = run(fields[JOB_STATE])
            if said == 0:
                active[left] = job
                left += 1
            else:
                fields[JOB_RESULT] = said
                store_release(job + 8 * JOB_DONE, 1)
                _sem_post(job + 8 * JOB_FINISHED)
        if left == count and count > 0:
            _usleep(pause)
        count = left
    return 0


@njit("int64(int64)", nogil=True, cache=True, error_model="numpy")
def wait_for(job: int) -> int:
    """Sleep until a job is finished, or a signal comes; return 0 once it is finished."""
    return _sem_wait(job + 8 * JOB_FINISHED)
