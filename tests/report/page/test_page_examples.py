"""Hardest samples and their thumbnails."""

import base64
import io

import numpy as np
import pytest
import torch
from made_predictions import predictions
from PIL import Image

from riskmatch.data import load, split
from riskmatch.report.samples import DataCache, Example, example_of_tensor, hardest
from riskmatch.runs.config import RunConfig

CLASSES = ("cat", "dog")


def decode(uri):
    head, data = uri.split(",")
    format_ = head.removeprefix("data:image/").removesuffix(";base64")
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        assert image.format == format_.upper()
        return np.asarray(image.convert("RGB"))


def test_largest_risks_come_first_with_their_indices():
    predicted = predictions([0, 1, 1, 0], [1, 1, 0, 0], [0.6, 0.7, 0.8, 0.9],
                 [2.0, np.nan, 3.0, 0.1], index=[10, 20, 30, 40])  # fmt: skip
    calls = []

    def take(domain, part, indices):
        calls.append((domain, part, indices))
        return [Example(1, "one.png", "data:"), Example(0, row={"0": "7"})]

    first, second = hardest({"a": {"val": predicted}}, CLASSES, take, limit=2)["a"]
    assert calls == [("a", "val", [30, 10])]
    assert first == {
        "risk": 3.0, "label": "dog", "predicted": "cat", "confidence": pytest.approx(0.8),
        "name": "one.png", "thumbnail": "data:", "row": None,
    }  # fmt: skip
    assert (second["risk"], second["name"], second["row"]) == (2.0, "sample 10", {"0": "7"})
    (bare, *_) = hardest({"a": {"val": predicted}}, CLASSES, None)["a"]
    assert (bare["name"], bare["thumbnail"], bare["row"]) == ("sample 30", None, None)


def test_hardest_samples_of_both_parts_are_ranked_together():
    parts = {
        "train": predictions([0, 1], [1, 1], risk=[5.0, 0.1]),
        "val": predictions([1, 0], [0, 0], risk=[2.0, 3.0]),
    }
    shown = hardest({"a": parts}, CLASSES, None, limit=3)["a"]
    assert [one["risk"] for one in shown] == [5.0, 3.0, 2.0]
    assert [one["name"] for one in shown] == ["train sample 0", "sample 1", "sample 0"]


def test_different_labels_raise():
    with pytest.raises(ValueError, match="the data set has changed"):
        hardest({"a": {"val": predictions([0], [0])}}, CLASSES, lambda *_: [Example(1)])


def write_images(root, each=6):
    """Images of one colour each, larger than a thumbnail."""
    shades = iter(range(0, 256, 5))
    for domain in "ink", "oil":
        for label in CLASSES:
            (root / domain / label).mkdir(parents=True)
            for number in range(each):
                shade = (next(shades), 40, 200)
                Image.new("RGB", (200, 120), shade).save(root / domain / label / f"{number}.png")
    return root


def test_thumbnails_come_from_the_validation_split_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = write_images(tmp_path / "pets")
    config = RunConfig(str(root), ("ink",), "erm", trial=3, model_options={"frozen": True})
    shown = DataCache().examples(config)
    assert shown.classes == CLASSES
    assert not (tmp_path / "cache").exists()  # nothing was decoded or embedded
    for domain in load(str(root)).domains:
        seen = split(domain, 3)["val"]
        places = list(range(len(seen)))
        for example, x, y in zip(
            shown.take(domain.name, "val", places), seen.x[:], seen.y, strict=True
        ):
            pixels = decode(example.thumbnail)
            assert max(pixels.shape) <= 96
            assert pixels.shape[:2] == pytest.approx((58, 96), abs=1)  # the aspect of the file
            assert example.label == y
            assert example.name.startswith(f"{domain.name}/{CLASSES[y]}/")
            expected = x.float().mean((1, 2))
            assert pixels.mean((0, 1)) == pytest.approx(expected.numpy(), abs=4)


def test_digits_keep_their_colours():
    config = RunConfig("colored-digits", ("0.1",), "erm", data_options={"samples": 50})
    (example,) = DataCache().examples(config).take("0.9", "val", [4])
    seen = split(load("colored-digits", {"samples": 50}).domains[0], 0)["val"]
    pixels = decode(example.thumbnail)
    scale = 96 // 8
    expected = np.zeros((8, 8, 3))
    expected[:, :, :2] = np.moveaxis(seen.x[4].numpy(), 0, -1) * 255
    assert pixels.shape == (8 * scale, 8 * scale, 3)
    assert pixels[::scale, ::scale] == pytest.approx(expected, abs=1)
    assert example.label == seen.y[4]


def test_one_channel_is_grey():
    grey = torch.tensor([[[0, 128], [255, 7]]], dtype=torch.uint8)
    pixels = decode(example_of_tensor(grey, 0).thumbnail)
    assert (pixels[::48, ::48] == grey.numpy()[0][:, :, None]).all()


def test_features_become_a_row():
    row = example_of_tensor(torch.arange(20) / 3, 1).row
    assert (len(row), row["0"], row["11"]) == (12, "0", "3.667")
