"""The state of a run as named arrays, and back: what a checkpoint holds.

Weights, state and optimizer state are stored once, by the names of the layers, where they are the
same on all ranks; so a checkpoint starts on any number of ranks and any grid. What each rank has
for itself (residuals of compression, weights between two averages, its share of the epoch's sums)
is stored with a row for each rank, under ``ranks/``. On the same number of ranks and with the same
consistency each rank gets its row back, and the run goes on bitwise as it would have. Otherwise
the rows are united: weights and momentum are averaged, residuals and sums keep their total.
"""

from hpcdl.snapshot.check import check
from hpcdl.snapshot.transfer import capture, restore

__all__ = ["capture", "check", "restore"]
