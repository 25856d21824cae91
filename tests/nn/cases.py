"""One example or more of each layer; the conformance tests walk this list."""

from __future__ import annotations

from dataclasses import dataclass

from hpcdl.nn import (
    BatchNorm,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool,
    Layer,
    MaxPool,
    ReLU,
    Residual,
    Sequential,
)


@dataclass(frozen=True)
class Case:
    name: str
    layer: Layer
    x_shape: tuple[int, ...]


CASES = (
    Case("dense", Dense(5), (7,)),
    Case("dense-no-bias", Dense(1, bias=False), (3,)),
    Case("conv", Conv2d(4), (5, 6, 3)),
    Case("conv-unpadded", Conv2d(2, padding=0), (5, 4, 2)),
    Case("conv-1x1", Conv2d(4, kernel=1), (3, 5, 2)),
    Case("conv-1x1-stride", Conv2d(3, kernel=1, stride=2, bias=False), (5, 4, 2)),
    Case("conv-5-stride", Conv2d(2, kernel=5, stride=2, padding=2), (7, 6, 1)),
    Case("conv-asymmetric", Conv2d(2, (3, 2), (1, 2), ((0, 2), (1, 0))), (4, 5, 2)),
    Case("batchnorm-image", BatchNorm(), (3, 4, 2)),
    Case("batchnorm-vector", BatchNorm(momentum=0.5, eps=1e-3), (3,)),
    Case("relu", ReLU(), (4, 3)),
    Case("maxpool", MaxPool(), (4, 6, 3)),
    Case("maxpool-odd", MaxPool(2), (5, 7, 2)),
    Case("maxpool-overlap", MaxPool(3, stride=2, padding=1), (6, 7, 2)),
    Case("maxpool-asymmetric", MaxPool((1, 3), (2, 1), ((0, 0), (2, 1))), (5, 4, 2)),
    Case("globalavgpool", GlobalAvgPool(), (3, 4, 5)),
    Case("flatten", Flatten(), (2, 3, 2)),
    Case("residual-empty", Residual(Sequential([])), (3, 2)),
    Case("residual-identity", Residual(Sequential([Conv2d(2), BatchNorm(), ReLU()])), (4, 3, 2)),
    Case(
        "residual-projection",
        Residual(
            Sequential([Conv2d(4, stride=2, padding=1), ReLU(), Conv2d(4)]),
            shortcut=Conv2d(4, kernel=1, stride=2),
        ),
        (5, 5, 2),
    ),
    Case("sequential-empty", Sequential([]), (3,)),
    Case(
        "sequential-plain",
        Sequential([Conv2d(3), ReLU(), MaxPool(), Flatten(), Dense(4)]),
        (6, 6, 1),
    ),
    Case(
        "sequential-residual",
        Sequential(
            [
                Conv2d(4, bias=False),
                BatchNorm(),
                ReLU(),
                MaxPool(),
                Residual(Sequential([Conv2d(4), BatchNorm(), ReLU(), Conv2d(4)])),
                GlobalAvgPool(),
                Dense(3),
            ]
        ),
        (6, 6, 2),
    ),
)
