"""The shipped network with each codec: it learns as well, in fewer bytes; the control fails."""

import pytest

from tests.train.tools import metrics, train

RUNS = {
    "none": [],
    "qsgd": ["compression.codec='qsgd'"],
    "topk": ["compression.codec='topk'"],
    "control": ["compression.codec='topk'", "compression.error_feedback=false"],
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """The last line of metrics of each run."""
    folder = tmp_path_factory.mktemp("codecs")
    found = {}
    for name, sets in RUNS.items():
        places = [f"run.dir='{folder / name}'", f"run.data_dir='{folder}'", "run.progress='none'"]
        train("digits-cnn", *places, *sets, ranks=4)
        found[name] = metrics(folder / name)[-1]
    return found


def test_the_shipped_network_is_good(ends):
    assert ends["none"]["test_accuracy"] >= 0.98
    assert ends["none"]["time_s"] < 60


@pytest.mark.parametrize("codec", ["qsgd", "topk"])
def test_a_codec_learns_as_well(ends, codec):
    assert ends[codec]["test_accuracy"] >= ends["none"]["test_accuracy"] - 0.01
    assert ends[codec]["train_loss"] <= max(3 * ends["none"]["train_loss"], 0.05)


def test_top_k_without_error_feedback_is_clearly_worse(ends):
    assert ends["control"]["train_loss"] >= 5 * ends["topk"]["train_loss"]


def test_the_bytes_on_the_wire_are_the_formulas(ends):
    sent = {name: end["gradient_bytes_per_step"] for name, end in ends.items()}
    n, p = 28_426, 4
    # An allreduce of the whole vector sends 2 n (p - 1) / p values, 4 bytes each.
    assert sent["none"] == 2 * 4 * n * (p - 1) / p
    # Top-k gathers k values and k indices of 4 bytes from each rank.
    k = round(0.01 * n)
    assert sent["topk"] == sent["control"] == (p - 1) * 8 * k
    # QSGD: 4 bits a value and 4 bytes for 512 of them, twice (p - 1) / p of that; parts are padded.
    assert sent["qsgd"] == pytest.approx(2 * (p - 1) / p * n * (0.5 + 4 / 512), rel=0.01)
