"""Train neural networks with nothing but MPI.

    from mpi4py import MPI
    from hpcdl.nn import Conv2d, Dense, GlobalAvgPool, ReLU, Sequential

See ``hpcdl --help`` for the command line, and the README for a first program.
"""

__version__ = "0.1.0"
