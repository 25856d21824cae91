"""Writing: what is written is read back as it was."""

import dataclasses
import sys

import numpy as np
import pytest

from hpcdl import config
from hpcdl.config import layers
from hpcdl.config.error import toml_value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NETWORK = config.Model(
    (
        layers.Conv(3, kernel=5, stride=2, padding=0, bias=False),
        layers.BatchNorm("local", momentum=1.0, eps=1e-300),
        layers.ReLU(),
        layers.MaxPool(3, stride=2, padding=1),
        layers.Residual(
            body=(layers.Residual((layers.Flatten(),)), layers.GlobalAvgPool()),
            shortcut=(layers.Conv(1, kernel=1),),
        ),
        layers.Dense(10, bias=False),
    )
)


def test_defaults_round_trip():
    written = config.to_toml(dataclasses.replace(config.Config(), model=NETWORK))
    assert config.parse(written) == config.Config(model=NETWORK)


def test_other_values_round_trip():
    original = config.Config(
        run=config.Run(dir='quo"te\\ \x7f\t\n\u00e9\U0001f600', seed=2**63 - 1, dtype="float64"),
        data=config.Data(file="x.h5", builtin="", test_input="", test_target=""),
        model=NETWORK,
        train=config.Train(epochs=1, batch=10**9, drop_last=True),
        optimizer=config.Optimizer(lr=0.1 + 0.2, momentum=0.0, weight_decay=5e-324),
        schedule=config.Schedule("step", warmup_epochs=0.5, milestones=(1, 2, 30), gamma=1 / 3),
        consistency=config.Consistency("local_sgd", period=8, algorithm="tree"),
        compression=config.Compression("topk", density=1e-05, error_feedback=False),
        grid=config.Grid(data=2, height=2),
        checkpoint=config.Checkpoint(0, 7, 1),
    )
    assert config.parse(config.to_toml(original)) == original


def test_record_names_every_key():
    written = config.to_toml(dataclasses.replace(config.Config(), model=NETWORK))
    for section in dataclasses.fields(config.Config):
        assert f"[{section.name}]\n" in written
        for field in dataclasses.fields(section.default):
            assert f"{field.name} = " in written


def test_example_loads_to_the_defaults():
    loaded = config.parse(config.example())
    assert loaded.model.layers
    assert dataclasses.replace(loaded, model=config.Model()) == config.Config()


def test_example_has_a_comment_for_every_key_and_fits_a_page():
    text = config.example()
    assert max(map(len, text.splitlines())) <= 100
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if " = " in line and not line.startswith((" ", "#", "layers")):
            assert "# " in line or lines[number - 1].startswith("# ")
    for name in layers.LAYERS:
        assert f"#   {name}: " in text


@pytest.mark.parametrize("value", [0.1, 1e22, 5e-324, -0.0, 10**30, True, "", "a'b", [1, ["x"]]])
def test_values_round_trip(value):
    back = tomllib.loads(f"x = {toml_value(value)}")["x"]
    assert repr(back) == repr(value)


def test_values_without_a_notation_are_refused():
    with pytest.raises(TypeError, match="has no notation in TOML"):
        toml_value(np.zeros(2))
    with pytest.raises(TypeError, match="None"):
        toml_value(None)
