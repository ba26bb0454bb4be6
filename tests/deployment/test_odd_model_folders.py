"""Model folders whose values make no sense, checksums included: one line names the value."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load, save

import riskmatch
from riskmatch.deployment import ModelError
from riskmatch.deployment.folder import HELD_OUT, MODEL, own_checksum
from riskmatch.files import sha256

SMALL = {"steps": 2, "model_options": {"widths": [4]}}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Folders of a model of a table and of one of tensors."""
    root, n = tmp_path_factory.mktemp("odd"), 40
    table = pd.DataFrame(
        {
            "age": np.where(np.arange(n) % 7, np.arange(n), np.nan),
            "ward": np.array(["x", "y"])[np.arange(n) % 2],
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "site": np.array(["A", "B"])[np.arange(n) // 2 % 2],
            "late": np.array(["no", "yes"])[np.arange(n) // 4 % 2],
        }
    )
    runs = {
        "table": riskmatch.train(table, "erm", label="late", domain="site", out=root, **SMALL),
        "tensors": riskmatch.train(
            "colored-digits", "erm", out=root, data_options={"samples": 40}, **SMALL
        ),
    }
    return {name: riskmatch.save_model(run, root / name) for name, run in runs.items()}


def seal(folder, values):
    rest = {name: value for name, value in values.items() if name != "sha256"}
    (folder / MODEL).write_text(json.dumps({**rest, "sha256": own_checksum(rest)}))


def changed(saved, folder, keys, value):
    """A copy of a model folder with another value, or without it, and with valid checksums."""
    shutil.copytree(saved, folder)
    values = json.loads((folder / MODEL).read_text())
    *path, last = keys.split(".")
    inside = values
    for key in path:
        inside = inside[int(key) if key.isdecimal() else key]
    last = int(last) if last.isdecimal() else last
    if value is Ellipsis:
        del inside[last]
    else:
        inside[last] = value
    seal(folder, values)
    return folder


@pytest.mark.parametrize(
    ("kind", "keys", "value", "facts"),
    [
        ("table", "network", 5, "network must be a table, got 5"),
        ("table", "network.input_shape", [], r"inputs \(\), and the preprocessing makes \(10,\)"),
        ("table", "network.input_shape.0", float("inf"), r"network.input_shape .*finite"),
        ("table", "network.outputs", "2", "network.outputs must be an integer, got '2'"),
        ("table", "network.outputs", 5, "5 outputs for 2 classes"),
        ("table", "network.options.cardinalities", [9], r"\[4\] codes of categories"),
        ("table", "classes.0", 5, "classes must be a list of strings"),
        ("table", "classes", ["a", "b", "c"], "2 outputs for 3 classes"),
        ("table", "domains.A", None, "domains.A must be a table, got None"),
        ("table", "domains", {}, "trained on none of its domains"),
        ("table", "run.config", {}, "config.data is missing"),
        ("table", "run.config.stepz", 3, "field of config 'stepz'. Did you mean 'steps'"),
        ("table", "run.config.risk", 3, "risk must be a string, got 3"),
        ("table", "table.label", 5, "table.label must be a string, got 5"),
        ("table", "expected", ..., "expected is missing"),
        ("table", "preprocessing.kind", "x", "kind of preprocessing 'x'"),
        ("table", "preprocessing.columns.0", ..., "need 7 medians, and there are 8"),
        ("table", "preprocessing.columns.1", ..., "need 0 categories, and there are 1"),
        ("table", "preprocessing.columns.0.name", 5, r"Expected `str`.*columns\[0\].name"),
        ("table", "preprocessing.medians.0", "x", r"Expected `float`.*medians\[0\]"),
        ("table", "preprocessing.missing", [99], r"\[99\]"),
        ("table", "preprocessing.categories.0.0", 3, r"Expected `str`.*categories\[0\]"),
        ("table", "preprocessing.target", {"mean": 1.0}, "missing required field `scale`.*target"),
        ("tensors", "preprocessing.dtype", "save", "preprocessing.dtype .*'save'"),
        ("tensors", "preprocessing.shape", [8, 8], r"\(2, 8, 8\), and the preprocessing.*\(8, 8\)"),
        ("tensors", "preprocessing.shape", None, "preprocessing.shape must be a list of integers"),
    ],
)
def test_value_that_makes_no_sense_is_named(saved, tmp_path, kind, keys, value, facts):
    folder = changed(saved[kind], tmp_path / "model", keys, value)
    with pytest.raises(ModelError, match=facts) as caught:
        riskmatch.load_model(folder)
    message = str(caught.value)
    assert str(folder) in message
    assert "\n" not in message
    assert len(message.removeprefix(str(folder))) < 900
    assert "again" in message  # copy the folder, or train


@pytest.mark.parametrize("shape", [(), (3,), (8, 1)])
def test_held_out_scores_of_other_shapes_are_refused(saved, tmp_path, shape):
    folder = shutil.copytree(saved["table"], tmp_path / "model")
    tensors = load((folder / HELD_OUT).read_bytes())
    (folder / HELD_OUT).write_bytes(save({**tensors, "1/risk": torch.zeros(shape)}))
    values = json.loads((folder / MODEL).read_text())
    values["files"][HELD_OUT] = sha256((folder / HELD_OUT).read_bytes())
    seal(folder, values)
    with pytest.raises(ModelError, match=f"'B' in {HELD_OUT} have different shapes"):
        riskmatch.load_model(folder)
