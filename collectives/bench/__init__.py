"""Time the algorithms of a collective beside the MPI library's own calls, in the same run.

The method: each rank on a core of its own where there are enough; a barrier before each call; the
time of a call is that of the slowest rank; the library's calls, in place and out of place, and all
algorithms take turns within each repetition, so that whatever else the machine does hits all of
them alike; warm-up apart; medians. The input is restored before each call, outside the time, and
what each algorithm left behind is compared with the library's result, element by element.
"""
