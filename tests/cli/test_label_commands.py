"""Commands on tags, numbers and labels of a task of one's own."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

NETWORK = ["--model", "lite0", "--model-option", "pretrained=false", "--frozen"]
NETWORK += ["--model-option", "size=32"]
FAST = ["--method", "erm", "--steps", "4", "--eval-every", "2"]
TAGS = ["bright", "red"]


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """A list of 48 images with tags, ages and scores, in the current folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    random, rows = np.random.default_rng(0), []
    for number in range(48):
        bright, red = random.integers(0, 2, 2)
        pixels = random.integers(0, 60, (8, 8, 3)) + 120 * bright
        pixels[..., 0] += 70 * red
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{number}.png")
        row = {"path": f"{number}.png", "domain": "abc"[number % 3], "age": 20 + number % 8}
        names = [name for name, tag in zip(TAGS, (bright, red), strict=True) if tag]
        tags = "|".join(names) or "[]" if number else ""
        rows.append({**row, "label": tags, "red": red if number else None, "bright": bright})
    frame = pd.DataFrame(rows)
    frame.to_csv("pictures.csv", index=False)
    return frame


def record(out):
    (folder,) = out.iterdir()
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_data_list_and_doctor_describe_tags_and_numbers(riskmatch, pictures):
    share = pictures.loc[pictures["domain"] == "b", "red"].mean()
    for label in ("label", "bright,red"):
        rows = json.loads(riskmatch("data", "list", "pictures.csv", "--label", label, "--json").out)
        assert rows[0]["labels"]["b"]["red"] == pytest.approx(share)
    for command in ("list", "doctor"):
        done = riskmatch("data", command, "pictures.csv", "--label", "bright", "--label", "red")
        assert done.code == 0, done.err
        assert "tags from" in done.out
    pictures.assign(label=pictures["age"] + 0.5).to_csv("ages.csv", index=False)
    shown = riskmatch("data", "doctor", "ages.csv").out
    assert "mean" in shown
    assert f"{pictures.loc[pictures['domain'] == 'a', 'age'].mean() + 0.5:.4g}" in shown


def test_a_list_of_images_with_tags_through_every_command(riskmatch, pictures):
    words = ["pictures.csv", "--all-domains", "--no-left-out", *FAST, *NETWORK, "--save", "model"]
    done = riskmatch("train", *words, "--label", "bright,red", "--metric", "auroc")
    assert done.code == 0, done.err
    header, *_, last, _ = record(Path("runs"))
    assert (header["task"]["name"], header["task"]["primary"]) == ("multi-label", "auroc")
    assert header["data"]["classes"] == TAGS
    assert set(last["scores"]["a"]["val"]["metrics"]) == {"mean-ap", "macro-f1", "auroc"}
    assert riskmatch("predict", "model", "pictures.csv", "-o", "p.csv").code == 0
    assert list(pd.read_csv("p.csv").columns) == ["path", "tags", "p_bright", "p_red"]
    for more in ([], ["--label", "label"]):  # as in training, and by a column of lists
        done = riskmatch("evaluate", "model", "pictures.csv", "--json", *more)
        assert done.code == 0, done.err
        values = json.loads(done.out)
        assert values["metric"] == "auroc"
        assert not any("accuracy" in name for row in values["domains"] for name in row)
    assert riskmatch("export", "model", "--format", "torch").code == 0


def test_features_keep_tags(riskmatch, pictures):
    options = ["--model-option", "pretrained=false", "--model-option", "size=32"]
    words = ["--label", "bright,red", "--out", "f.npz", *options]
    done = riskmatch("embed", "pictures.csv", *words)
    assert done.code == 0, done.err
    done = riskmatch("train", "f.npz", "--test-domain", "a", *FAST)
    assert done.code == 0, done.err
    assert record(Path("runs"))[0]["task"]["name"] == "multi-label"


def test_whole_numbers_are_a_regression_if_the_task_says_so(riskmatch, pictures):
    pictures.assign(label=pictures["age"]).to_csv("ages.csv", index=False)
    words = [
        "train",
        "ages.csv",
        "--all-domains",
        "--no-left-out",
        *FAST,
        *NETWORK,
        "--save",
        "model",
    ]
    done = riskmatch(*words, "--task", "regression")
    assert done.code == 0, done.err
    header = record(Path("runs"))[0]
    assert (header["task"]["primary"], header["data"]["classes"]) == ("rmse", [])
    assert riskmatch("evaluate", "model", "ages.csv", "--metric", "mae").code == 0
    again = riskmatch(*words, "--task", "regression")
    assert "differ" not in again.err


OWN = """
import torch
from riskmatch.contract.task import Task
from riskmatch.data import Domain, DomainSet

DEPTH = Task(
    lambda outputs, y: (outputs.view(y.shape) - y).abs().mean((1, 2)),
    lambda outputs: (outputs.view(-1, 2, 3), None),
    ("my_depth:error",),
    "my_depth:error",
)


def error(y, predicted, scores):
    return -float(abs(y - predicted).mean())


def rooms(*, samples: int = 30):
    x = torch.linspace(0, 1, 6 * samples).view(samples, 2, 3)
    return DomainSet("rooms", tuple(Domain(name, x, 2 * x) for name in "abc"), classes=0)
"""


def test_a_task_of_ones_own_and_a_data_function(riskmatch, tmp_path):
    (tmp_path / "my_depth.py").write_text(OWN)
    words = ["my_depth:rooms", "--task", "my_depth:DEPTH", "--model", "mlp", *FAST]
    done = riskmatch("train", *words, "--test-domain", "a")
    assert done.code == 0, done.err
    assert record(Path("runs"))[0]["task"]["primary"] == "my_depth:error"
    refused = riskmatch("train", *words[:1], *words[3:], "--test-domain", "a")
    assert refused.code == 2
    assert "(n, 2, 3)" in refused.err
    assert "--task" in refused.err
