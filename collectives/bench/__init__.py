"""Time the algorithms of a collective beside the MPI library's own calls, in the same run.

The method: each rank on a core of its own where there are enough; a barrier before each call; the
time of a call is that of the slowest rank; the library's calls, in place and out of place, and all
algorithms take turns within each repetition, so that whatever else the machine does hits all of
them alike; warm-up apart; medians. The input is restored before each call, outside the time, and
what each algorithm left behind is compared with the library's result, element by element, also of
two runs with no barrier in between.

What the times contain, of all calls alike: the call from Python, a function object with its
arguments bound; that ranks do not leave the barrier at the same moment, which weighs most where a
call takes a microsecond (``--batch`` times calls in a row); data that were written just before, and
so lie in the caches as far as they fit, as do those of a program that has just computed them. Runs
in which a rank lost its core to another program are left out where each rank has a core.
"""
