"""Optimizers and learning-rate schedules on flat vectors. Knows neither MPI nor collectives."""

from hpcdl.optim.optimizer import Optimizer, State
from hpcdl.optim.schedule import Constant, WarmupCosine, WarmupStep
from hpcdl.optim.sgd import SGD

__all__ = ["SGD", "Constant", "Optimizer", "State", "WarmupCosine", "WarmupStep"]
