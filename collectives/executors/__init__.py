"""What runs a schedule: `python` is the reference; `native` calls the MPI library without Python
in between; `shared` works in memory that the ranks of a node have in common.
"""
