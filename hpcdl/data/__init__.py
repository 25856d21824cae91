"""Data: HDF5 files, the built-in digits, and the batches that every rank takes its share of."""

from hpcdl.data.atomic import hdf5_writer, replacing
from hpcdl.data.digits import ensure_digits, is_digits, write_digits
from hpcdl.data.hdf5 import DataError, HDF5Dataset
from hpcdl.data.sampler import GlobalBatches, permutation, share

__all__ = [
    "DataError",
    "GlobalBatches",
    "HDF5Dataset",
    "ensure_digits",
    "hdf5_writer",
    "is_digits",
    "permutation",
    "replacing",
    "share",
    "write_digits",
]
