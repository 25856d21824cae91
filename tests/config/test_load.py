"""Loading: names and paths, overrides, and the text of every refusal."""

import dataclasses
import math
import os
from pathlib import Path

import pytest

from hpcdl import config
from hpcdl.config import ConfigError, layers

SMALL = '[model]\nlayers = [{ type = "relu" }]\n'


def refused(text, *overrides):
    with pytest.raises(ConfigError) as caught:
        config.parse(text, "f.toml", overrides)
    return caught.value


def test_defaults_are_those_of_the_dataclasses():
    loaded = config.parse(SMALL)
    assert loaded == config.Config(model=config.Model((layers.ReLU(),)))


def test_every_kind_of_value():
    loaded = config.parse(
        """
        run = { dir = "out", seed = 7, dtype = "float64" }
        optimizer.lr = 1                # an integer where a float is wanted
        optimizer.nesterov = true
        schedule = { name = "step", milestones = [2, 5], gamma = 0.5 }
        [[model.layers]]
        type = "conv"
        channels = 8
        padding = 0
        [[model.layers]]
        type = "residual"
        body = [{ type = "batchnorm", statistics = "local" }, { type = "residual", body = [
            { type = "relu" }] }]
        [[model.layers]]
        type = "dense"
        units = 3
        """
    )
    assert loaded.run == config.Run(dir="out", seed=7, dtype="float64")
    assert loaded.optimizer == config.Optimizer(lr=1.0, nesterov=True)
    assert isinstance(loaded.optimizer.lr, float)
    assert loaded.schedule == config.Schedule("step", milestones=(2, 5), gamma=0.5)
    inner = layers.Residual((layers.ReLU(),))
    assert loaded.model.layers == (
        layers.Conv(8, padding=0),
        layers.Residual((layers.BatchNorm("local"), inner)),
        layers.Dense(3),
    )


def test_a_configuration_cannot_be_changed():
    loaded = config.parse(SMALL)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.run = config.Run()
    hash(loaded)


# Every message whole: they are what a user sees. Columns: text, overrides, message.
MESSAGES = [
    (
        SMALL + "[optimizer]\nlrr = 0.1",
        (),
        "f.toml:4: optimizer.lrr is unknown (did you mean 'lr'?); the keys of optimizer are: "
        "name, lr, momentum, weight_decay, nesterov",
    ),
    (
        SMALL + "[optimiser]",
        (),
        "f.toml:3: optimiser is unknown (did you mean 'optimizer'?); the sections are: run, data, "
        "model, train, optimizer, schedule, consistency, compression, grid, checkpoint",
    ),
    (
        SMALL + '\n\n[train]\nbatch = "64"',
        (),
        'f.toml:6: train.batch = "64" is not allowed; it must be an integer from 1 to 2147483647',
    ),
    (
        SMALL + "train = 3",
        (),
        "f.toml:3: model.train is unknown; the keys of model are: layers",
    ),
    ("train = 3\n" + SMALL, (), "f.toml:1: train = 3 is not allowed; it must be a table"),
    (
        SMALL + '[consistency]\nalgorithm = "rings"',
        (),
        'f.toml:4: consistency.algorithm = "rings" is not allowed; it must be one of "auto", '
        '"ring", "tree", "recursive_doubling", "rabenseifner" (did you mean \'ring\'?)',
    ),
    (
        '[model]\nlayers = [\n  { type = "relu" },\n  { type = "conv", kernel = 3 },\n]',
        (),
        "f.toml:4: model.layers[1] lacks channels; it must be an integer from 1 to 2147483647",
    ),
    (
        '[model]\nlayers = [\n  { type = "residual", body = [\n'
        '    { type = "relu", x = 1 },\n  ] },\n]',
        (),
        "f.toml:4: model.layers[0].body[0].x is unknown; the keys of model.layers[0].body[0] are: "
        "none but type",
    ),
    (
        '[[model.layers]]\ntype = "relu"\n[[model.layers]]\ntype = "batch_norm"',
        (),
        'f.toml:4: model.layers[1].type = "batch_norm" is not allowed; it must be one of '
        '"batchnorm", "conv", "dense", "flatten", "globalavgpool", "maxpool", "relu", "residual" '
        "(did you mean 'batchnorm'?)",
    ),
    (
        "[model]\nlayers = [{ units = 3 }]",
        (),
        'f.toml:2: model.layers[0] lacks type; it must be one of "batchnorm", "conv", "dense", '
        '"flatten", "globalavgpool", "maxpool", "relu", "residual"',
    ),
    (
        '[model]\nlayers = ["relu"]',
        (),
        'f.toml:2: model.layers[0] = "relu" is not allowed; it must be a table with a type, '
        'as { type = "relu" }',
    ),
    (
        '[model]\nlayers = [{ type = "residual", body = [] }]',
        (),
        "f.toml:2: model.layers[0].body = [] is not allowed; it must be a list of layers that is "
        "not empty",
    ),
    ("", (), "f.toml: model.layers is missing; list at least one layer"),
    ("\n[model]", (), "f.toml:2: model.layers is missing; list at least one layer"),
    (
        "[model]\nlayers = []",
        (),
        "f.toml:2: model.layers = [] is not allowed; it must be a list of layers that is not empty",
    ),
    (
        SMALL,
        ("optimizer.lr=-1",),
        "--set optimizer.lr=-1: optimizer.lr = -1 is not allowed; it must be a finite number > 0",
    ),
    (
        SMALL,
        ("optimizer.lr=fast",),
        '--set optimizer.lr=fast: optimizer.lr = "fast" is not allowed; it must be a finite '
        "number > 0",
    ),
    (
        SMALL,
        ("train.epoch=3",),
        "--set train.epoch=3: train.epoch is unknown (did you mean 'epochs'?); the keys of train "
        "are: epochs, batch, drop_last",
    ),
    (
        SMALL,
        ("trian.epochs=3",),
        "--set trian.epochs=3: trian is unknown (did you mean 'train'?); the sections are: run, "
        "data, model, train, optimizer, schedule, consistency, compression, grid, checkpoint",
    ),
    (SMALL, ("optimizer.lr",), "--set optimizer.lr: not of the form section.key=value"),
    (SMALL, ("optimizer..lr=1",), "--set optimizer..lr=1: not of the form section.key=value"),
    (SMALL, ("=1",), "--set =1: not of the form section.key=value"),
    (
        SMALL + "[train]\nepochs = 3",
        ("train.epochs.x=1",),
        "--set train.epochs.x=1: train.epochs is a value; it has no key 'x'",
    ),
    (
        SMALL,
        ("model.layers.1.type=relu",),
        "--set model.layers.1.type=relu: model.layers has no '1'; it must be an index from 0 to 0",
    ),
    (
        SMALL,
        ("model.layers.0.typ=relu",),
        "--set model.layers.0.typ=relu: model.layers[0].typ is unknown; the keys of "
        "model.layers[0] are: none but type",
    ),
    (
        SMALL + '[schedule]\nname = "step"',
        (),
        "f.toml:3: schedule.milestones = [] is not allowed; it must be a list of at least one "
        'epoch when schedule.name is "step"',
    ),
    (
        SMALL + "[schedule]\nwarmup_epochs = 5",
        ("train.epochs=4",),
        "f.toml:4: schedule.warmup_epochs = 5.0 is not allowed; it must be at most "
        "train.epochs = 4",
    ),
    (
        SMALL + "[optimizer]\nnesterov = true\nmomentum = 0",
        (),
        "f.toml:4: optimizer.nesterov = true is not allowed; it must be false when momentum is 0",
    ),
    (
        SMALL + '[data]\nbuiltin = ""',
        (),
        'f.toml:3: data.file = "" is not allowed; it must be a file, or data.builtin must be '
        '"digits"',
    ),
    (
        SMALL + '[data]\ntest_target = ""',
        (),
        'f.toml:4: data.test_target = "" is not allowed; it must be given, or both test keys must '
        "be empty",
    ),
]


@pytest.mark.parametrize(("text", "overrides", "message"), MESSAGES)
def test_message(text, overrides, message):
    assert str(refused(text, *overrides)) == message


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("run.dir", ['""', ""], ["'a'", "2031", "x/y z"]),
        ("run.seed", ["-1", "1.0", "true", '"1"'], ["0", "12345678901"]),
        ("run.dtype", ["float16", "32"], ["float64"]),
        ("run.log_every", ["0"], ["1"]),
        ("train.epochs", ["0", "-3", "1.5", "true", "[1]"], ["1"]),
        ("train.batch", ["0", "true", "1e3"], ["1", "100_000"]),
        ("train.drop_last", ["1", '"true"', "yes", "0"], ["true", "false"]),
        ("optimizer.lr", ["0", "-0.1", "nan", "inf", "-inf", "true", "9" * 400], ["1e-9", "3"]),
        ("optimizer.momentum", ["-0.1", "1", "1.0", "nan"], ["0", "0.999"]),
        ("optimizer.weight_decay", ["-1e-9", "inf"], ["0", "1e-4"]),
        ("schedule.warmup_epochs", ["-1", "nan"], ["0", "0.5", "10"]),
        ("schedule.gamma", ["0", "1.1"], ["1", "0.1"]),
        ("schedule.milestones", ["3", "[0]", "[3, 3]", "[4, 2]", "[1.5]", "[true]"], ["[1, 2]"]),
        ("consistency.period", ["0", "2.5"], ["1"]),
        ("compression.bits", ["1", "9", "4.0"], ["2", "8"]),
        ("compression.bucket", ["0"], ["1"]),
        ("compression.density", ["0", "1.01", "nan"], ["1", "1e-6"]),
        ("grid.data", ["-1"], ["0", "2"]),
        ("grid.height", ["0"], ["1", "4"]),
        ("checkpoint.keep", ["0"], ["1"]),
        ("checkpoint.every_steps", ["-1"], ["0"]),
        ("model.layers.0.channels", ["0", "1.0", "true"], ["1"]),
        ("model.layers.0.kernel", ["0"], ["1"]),
        ("model.layers.0.padding", ["-1", "same"], ["0"]),
        ("model.layers.1.momentum", ["0", "1.5"], ["1"]),
        ("model.layers.1.eps", ["0", "nan"], ["1e-3"]),
        ("model.layers.1.statistics", ["batch"], ["local"]),
        ("model.layers.2.size", ["0"], ["3"]),
        ("model.layers.3.units", ["0"], ["10"]),
        ("model.layers.3.bias", ["1"], ["false"]),
    ],
)
def test_limits(key, wrong, right):
    text = """
    [model]
    layers = [{ type = "conv", channels = 4 }, { type = "batchnorm" }, { type = "maxpool" },
              { type = "dense", units = 10 }]
    """
    for value in wrong:
        error = refused(text, f"{key}={value}")
        assert error.origin == f"--set {key}={value}"
        assert "is not allowed; it must be " in error.problem
    for value in right:
        config.parse(text, overrides=[f"{key}={value}"])


def test_a_huge_integer_is_not_a_float():
    assert "finite number" in str(refused(SMALL + f"[optimizer]\nlr = {10**400}"))


def test_long_values_are_cut_in_messages():
    error = refused(SMALL + f"[train]\nepochs = [{'1, ' * 1000}]")
    assert len(str(error)) < 200


def test_overrides_replace_each_other_in_order():
    text = SMALL + "[optimizer]\nlr = 0.5\n"
    loaded = config.parse(text, overrides=["optimizer.lr=0.25", "optimizer.lr = 0.125"])
    assert loaded.optimizer.lr == 0.125
    error = refused(text, "optimizer={ lr = -1 }", "optimizer.momentum=0.5")
    assert error.origin == "--set optimizer={ lr = -1 }"
    error = refused(text, "optimizer.lr=-1", "optimizer={ lr = -2 }")
    assert error.origin == "--set optimizer={ lr = -2 }"


def test_overrides_are_toml_or_else_a_string():
    def run_dir(text):
        return config.parse(SMALL, overrides=[f"run.dir={text}"]).run.dir

    assert run_dir("OUT") == "OUT"
    assert run_dir('"a b"') == "a b"
    assert run_dir("2031") == "2031"
    assert run_dir("1e3") == "1e3"
    assert run_dir("a=b") == "a=b"
    assert run_dir("1\nother = 2") == "1\nother = 2"
    loaded = config.parse(SMALL, overrides=['model.layers=[{ type = "dense", units = 2 }]'])
    assert loaded.model.layers == (layers.Dense(2),)
    loaded = config.parse(
        SMALL,
        overrides=["model.layers.0={ type = 'conv', channels = 2 }", "model.layers.0.kernel=5"],
    )
    assert loaded.model.layers == (layers.Conv(2, kernel=5),)


def test_a_list_changed_by_index_can_be_refused():
    text = SMALL + '[schedule]\nname = "step"\nmilestones = [2, 4]'
    assert config.parse(text, overrides=["schedule.milestones.1=9"]).schedule.milestones == (2, 9)
    assert "milestones = [2, 1]" in str(refused(text, "schedule.milestones.1=1"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[model]\nlayers = [\n  1,,\n]", 3),
        ("a = 1\n\na = 2", 3),
        ('a = "never closed', 1),
        ("a = [\n1,\n", 2),
    ],
)
def test_syntax_errors_have_the_parsers_line(text, line):
    error = refused(text)
    assert error.origin == f"f.toml:{line}"
    assert error.problem.startswith("not valid TOML: ")


def test_files(tmp_path, monkeypatch):
    path = tmp_path / "c.toml"
    path.write_text(SMALL)
    assert config.load(path) == config.load(str(path)) == config.parse(SMALL)
    monkeypatch.chdir(tmp_path)
    assert config.load("c.toml") == config.parse(SMALL)
    with pytest.raises(ConfigError, match=r"^missing\.toml: cannot be read: No such file"):
        config.load("missing.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        config.load(f"{tmp_path}/")
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match=r"c\.toml: not UTF-8 text"):
        config.load(path)
    path.write_text(SMALL + "[train]\nepochs = 0")
    with pytest.raises(ConfigError, match=rf"^{path}:4: train\.epochs = 0 is not allowed"):
        config.load(path)


def test_names(tmp_path, monkeypatch):
    assert "digits-cnn" in config.names()
    by_name = config.load("digits-cnn", ["run.dir=OUT"])
    assert by_name.run.dir == "OUT"
    with pytest.raises(ConfigError) as caught:
        config.load("digit-cnn")
    assert str(caught.value).startswith(
        "digit-cnn: no such configuration (did you mean 'digits-cnn'?)"
    )
    assert "shipped are: " + ", ".join(config.names()) in str(caught.value)
    # A file of the same name in the working directory is not a path: it has no slash.
    monkeypatch.chdir(tmp_path)
    Path("digits-cnn").write_text("nonsense")
    assert config.load("digits-cnn") == config.load("digits-cnn")


def test_every_shipped_configuration_loads():
    for name in config.names():
        loaded = config.load(name)
        assert loaded.run.dir == f"runs/{name}"
        assert math.isfinite(loaded.optimizer.lr)


DEEP = "[" * 5000 + "]" * 5000


def nested(levels):
    layer = '{ type = "relu" }'
    for _ in range(levels):
        layer = f'{{ type = "residual", body = [{layer}] }}'
    return f"[model]\nlayers = [{layer}]\n"


@pytest.mark.parametrize(
    ("text", "overrides", "match"),
    [
        (f"a = {DEEP}", (), "nested too deeply"),
        (SMALL, (f"run.seed={DEEP}",), "nested too deeply"),
        (nested(300), (), "nest"),
        (nested(33), (), r"f\.toml:2: model\.layers\[0\] nests more than 32 layers"),
        (SMALL + "[run]\nseed = " + "9" * 5000, (), "cannot be read"),
        (SMALL + "[run]\nseed = 0x" + "f" * 5000, (), "cannot be read"),
        (SMALL, ("run.seed=" + "9" * 5000,), "cannot be read"),
        (SMALL, ("model.layers." + "9" * 5000 + ".type=relu",), "index from 0 to 0"),
        (SMALL, ("run.dir=\udcff",), r"--set 'run\.dir=\\udcff': not UTF-8 text"),
        (SMALL, (f"train.epochs={10**24}",), "from 1 to 2147483647"),
        (SMALL, (f"run.seed={2**63}",), "from 0 to 9223372036854775807"),
        (SMALL, (f"compression.bucket={2**31}",), "from 1 to 2147483647"),
        (SMALL, (f"schedule.milestones=[1, {2**31}]",), "from 1 to 2147483647"),
    ],
)
def test_absurd_values_are_refused_in_one_short_line(text, overrides, match):
    with pytest.raises(ConfigError, match=match) as caught:
        config.parse(text, "f.toml", overrides)
    assert len(str(caught.value)) < 12_000
    assert "\n" not in str(caught.value)


def test_layers_may_be_nested_as_far_as_any_network_needs():
    loaded = config.parse(nested(32))
    assert config.parse(config.to_toml(loaded)) == loaded


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert config.load(path) == config.parse(SMALL)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        config.load(tmp_path / "c.toml")
