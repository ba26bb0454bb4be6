"""Models of methods with a prediction of their own: saved, loaded, applied and exported."""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import riskmatch
from riskmatch.contract import Objective, Terms
from riskmatch.data import Domain
from riskmatch.deployment.folder import ModelError
from riskmatch.engine.evaluate import score_of, score_samples

sys.path.append(str(Path(__file__).parents[1] / "engine"))
from corrected import Corrected


def domains():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    return {
        name: (torch.randn(60, 5, generator=generator) + shift + y[:, None], y)
        for shift, name in enumerate("abc")
    }


def local():
    @dataclass(frozen=True)
    class Local(Corrected):
        """Cannot be imported."""

    return Local(rate=0.05)


@pytest.fixture(scope="module", params=["name", "object"])
def trained(request, tmp_path_factory):
    method = "corrected:Corrected" if request.param == "name" else local()
    options = {"model": "mlp", "steps": 30, "eval_every": 10}
    out = tmp_path_factory.mktemp(request.param)
    run = riskmatch.train(domains(), method, "c", out=out, device="cpu", **options)
    return run, riskmatch.save_model(run, out / "model"), method


def corrected_logits(network, x):
    features, logits = network.network(x)
    return logits + network.brought["correction"](features)


def test_saved_model_predicts_as_the_method_does(trained):
    run, folder, method = trained
    given = {} if isinstance(method, str) else {"method": method}
    model = riskmatch.load_model(folder, **given)
    x = domains()["c"][0]
    with torch.no_grad():
        expected = corrected_logits(run.model(step="train-val"), x)
        plain = model.network.network(x)[1]
    np.testing.assert_allclose(
        model.predict_proba(x), expected.softmax(1).numpy(), rtol=1e-5, atol=1e-6
    )
    assert not torch.allclose(plain, expected)


def test_predictions_of_the_run_are_those_of_the_method(trained):
    run, _, _ = trained
    rows = run.predictions
    last = rows[(rows["step"] == 30) & (rows["domain"] == "c")]
    x, y = domains()["c"]
    with torch.no_grad():
        risks = nn.functional.cross_entropy(corrected_logits(run.model(), x), y, reduction="none")
    np.testing.assert_allclose(
        np.sort(last["risk"].to_numpy()), np.sort(risks.numpy()), rtol=1e-4, atol=1e-5
    )


def test_model_of_an_object_needs_the_object(trained):
    run, folder, method = trained
    if isinstance(method, str):
        pytest.skip("the method has a name")
    with pytest.raises(ModelError, match=r"load_model\(path, method="):
        riskmatch.load_model(folder)
    loaded = riskmatch.load_run(run.folder)
    with pytest.raises(ValueError, match="method="):
        loaded.model()
    again = riskmatch.load_run(run.folder, method=method).model()
    x = domains()["a"][0]
    assert torch.equal(again(x)[1], run.model()(x)[1])


@pytest.mark.parametrize("format_", ["torch", "onnx"])
def test_export_agrees_with_the_method(trained, format_, tmp_path):
    if format_ == "onnx" and not all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        pytest.skip("needs the packages for ONNX")
    _, folder, method = trained
    given = {} if isinstance(method, str) else {"method": method}
    suffix = {"torch": ".pt2", "onnx": ".onnx"}[format_]
    exported = riskmatch.export(
        riskmatch.load_model(folder, **given),
        tmp_path / f"model{suffix}",
        format=format_,
        inputs=domains()["c"][0],
    )
    assert exported.checked == 60
    assert exported.difference < 1e-5


@dataclass(frozen=True)
class Labelled(Objective):
    """Reads the labels of what it predicts."""

    citation = "a test"

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk})

    def predict(self, ev):
        return ev.logits + ev.batch.y[:, None]


def test_prediction_from_labels_is_refused(tmp_path):
    with pytest.raises(AttributeError, match=r"inputs alone.* no y.*ev\.modules"):
        riskmatch.train(domains(), Labelled(), "c", model="mlp", steps=2, out=tmp_path)


@pytest.mark.parametrize("format_", ["torch", "onnx"])
def test_mtl_predicts_with_the_embedding_that_it_ships(format_, tmp_path):
    if format_ == "onnx" and not all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        pytest.skip("needs the packages for ONNX")
    options = {"model": "mlp", "steps": 20, "eval_every": 10, "device": "cpu"}
    run = riskmatch.train(domains(), "mtl", "c", out=tmp_path / "runs", lr=0.01, **options)
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    x = domains()["c"][0]
    with torch.no_grad():
        logits = model.network.network(x)[1]
        marginal = model.network.brought["marginal"]
        expected = logits + marginal.weight @ marginal.mean
    assert not torch.allclose(expected, logits, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(x), expected.softmax(1), rtol=1e-5, atol=1e-6)
    suffix = {"torch": ".pt2", "onnx": ".onnx"}[format_]
    exported = riskmatch.export(model, tmp_path / f"m{suffix}", format=format_, inputs=x)
    assert exported.difference < 1e-5


@pytest.mark.parametrize("format_", ["torch", "onnx"])
def test_urm_ships_the_activation_of_its_features(format_, tmp_path):
    if format_ == "onnx" and not all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        pytest.skip("needs the packages for ONNX")
    options = {"model": "mlp", "steps": 20, "eval_every": 10, "device": "cpu"}
    run = riskmatch.train(domains(), "urm", "c", out=tmp_path / "runs", lr=0.01, **options)
    folder = riskmatch.save_model(run, tmp_path / "model")
    model = riskmatch.load_model(folder)
    x = domains()["c"][0]
    with torch.no_grad():
        network = model.network.network
        expected = network.classifier(network.featurizer(x).tanh())
        assert not torch.allclose(expected, network(x)[1], atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(x), expected.softmax(1), rtol=1e-5, atol=1e-6)
    suffix = {"torch": ".pt2", "onnx": ".onnx"}[format_]
    # The folder: its network, just loaded, has not been asked for its classifier yet.
    exported = riskmatch.export(folder, tmp_path / f"m{suffix}", format=format_, inputs=x)
    assert exported.difference < 1e-5


def test_arm_predicts_in_blocks_of_its_training_batch_whatever_the_batch(tmp_path):
    options = {"model": "mlp", "steps": 30, "eval_every": 30, "device": "cpu", "batch_size": 7}
    run = riskmatch.train(domains(), "arm", "c", out=tmp_path / "runs", lr=0.01, **options)
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    x, y = domains()["c"]
    with torch.no_grad():
        features, logits = model.network.network(x)
        module = model.network.brought["context"]
        contexts = module.context(features)
        shifts = [
            module.shift(block.mean(0, keepdim=True)).expand(len(block), -1)
            for block in contexts.split(7)
        ]
        expected = logits + torch.cat(shifts)
    assert not torch.allclose(expected, logits, atol=1e-3)
    for size in (1, 10, 20, 60):
        outputs = model.outputs(x, batch_size=size)
        torch.testing.assert_close(outputs.logits, expected, rtol=1e-5, atol=1e-6)
        scored = score_samples(model.network, Domain("c", x, y), chunk=size)
        assert torch.equal(torch.from_numpy(scored.scores), outputs.logits.softmax(1))
    whole = [score_samples(model.network, Domain("c", x, y), chunk=n) for n in (1, 9, 60)]
    assert (
        len({score_of(w, ("accuracy", "log-loss", "ece")).metrics["log-loss"] for w in whole}) == 1
    )


@pytest.mark.parametrize("format_", ["torch", "onnx"])
def test_arm_is_exported_with_its_blocks(format_, tmp_path):
    if format_ == "onnx" and not all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        pytest.skip("needs the packages for ONNX")
    options = {"model": "mlp", "steps": 20, "eval_every": 10, "device": "cpu", "batch_size": 4}
    run = riskmatch.train(domains(), "arm", "c", out=tmp_path / "runs", lr=0.01, **options)
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    suffix = {"torch": ".pt2", "onnx": ".onnx"}[format_]
    path, x = tmp_path / f"m{suffix}", domains()["c"][0]
    exported = riskmatch.export(model, path, format=format_, inputs=x)
    assert exported.difference < 1e-5
