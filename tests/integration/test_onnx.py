"""Exported ONNX models give torch's answers, on batches of any size."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import riskmatch

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
DOMAINS, CLASSES = ("ink", "oil"), ("cat", "dog")


@pytest.fixture
def pets(tmp_path):
    rng = np.random.default_rng(0)
    for domain in DOMAINS:
        for label in CLASSES:
            (tmp_path / "pets" / domain / label).mkdir(parents=True)
            for number in range(5):
                image = Image.fromarray(rng.integers(0, 256, (40, 36, 3), np.uint8))
                image.save(tmp_path / "pets" / domain / label / f"{number}.png")
    return tmp_path / "pets"


def test_a_backbone_has_normalisation_and_metadata_inside(pets, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = {"model": "lite0", "model_options": {"pretrained": False, "size": 32}}
    options |= {"steps": 2, "out": tmp_path / "runs", "data_options": {"augment": False}}
    folder = riskmatch.save_model(riskmatch.train(pets, "erm", **options), tmp_path / "model")
    exported = riskmatch.export(folder)
    assert (exported.path, exported.checked) == (folder / "model.onnx", 20)
    assert exported.difference <= 1e-4
    session = onnxruntime.InferenceSession(exported.path)
    (entry,) = session.get_inputs()
    assert (entry.type, entry.shape[1:]) == ("tensor(uint8)", [3, 32, 32])
    model = riskmatch.load_model(folder)
    x = torch.randint(0, 256, (11, 3, 32, 32), dtype=torch.uint8)
    logits, probabilities = session.run(None, {"inputs": x.numpy()})
    np.testing.assert_allclose(probabilities, model.predict_proba(x), atol=1e-4)
    np.testing.assert_allclose(logits, model.network(x)[1].detach(), atol=1e-4, rtol=1e-4)
    metadata = json.loads(session.get_modelmeta().custom_metadata_map["riskmatch"])
    assert metadata["classes"] == list(CLASSES)
    sides = [step["side"] for step in metadata["preprocessing"]["resize"]]
    assert sides == [256, 32]
    riskmatch.load_model(folder)  # the file in the folder does no harm
    program = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[-1]
    monkeypatch.chdir(folder)
    names: dict = {}
    for image in sorted(pets.rglob("*.png"))[:5]:
        exec(program.replace("photo.jpg", str(image)), names)
        expected = model.predict_proba([image])
        np.testing.assert_allclose(names["probabilities"], expected, atol=0.01)


def test_a_regression_has_one_output(tmp_path):
    x = torch.randn(40, 3)
    options = {"risk": "huber", "steps": 2, "out": tmp_path, "model_options": {"widths": [4]}}
    run = riskmatch.train({"A": (x, x[:, 0]), "B": (x + 1, x[:, 0])}, "erm", **options)
    folder = riskmatch.save_model(run, tmp_path / "model")
    exported = riskmatch.export(folder, tmp_path / "m.onnx", inputs=x)
    (predicted,) = onnxruntime.InferenceSession(exported.path).run(None, {"inputs": x.numpy()})
    np.testing.assert_allclose(predicted, riskmatch.load_model(folder).predict(x), atol=1e-4)
