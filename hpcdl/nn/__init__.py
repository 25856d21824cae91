"""Layers and the loss, on arrays of any kind. Knows neither MPI nor collectives."""

from hpcdl.nn.batchnorm import BatchNorm
from hpcdl.nn.conv import Conv2d
from hpcdl.nn.dense import Dense
from hpcdl.nn.flatten import Flatten
from hpcdl.nn.globalavgpool import GlobalAvgPool
from hpcdl.nn.layer import Buffer, Ctx, Layer, Params, Reduce, Shape
from hpcdl.nn.loss import softmax_cross_entropy
from hpcdl.nn.maxpool import MaxPool
from hpcdl.nn.pack import Packed, pack
from hpcdl.nn.relu import ReLU
from hpcdl.nn.residual import Residual
from hpcdl.nn.sequential import Sequential

__all__ = [
    "BatchNorm",
    "Buffer",
    "Conv2d",
    "Ctx",
    "Dense",
    "Flatten",
    "GlobalAvgPool",
    "Layer",
    "MaxPool",
    "Packed",
    "Params",
    "ReLU",
    "Reduce",
    "Residual",
    "Sequential",
    "Shape",
    "pack",
    "softmax_cross_entropy",
]
