"""The model folder: what it holds, that it loads to the same network, what is refused."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import riskmatch
from riskmatch.advice import Advice, read_advice, write_advice
from riskmatch.deployment import Expected, ModelError
from riskmatch.deployment.folder import HELD_OUT, MODEL, WEIGHTS, own_checksum
from riskmatch.runs.findings import RunWarning
from riskmatch.selection import best_step

EXPECTED = Expected(0.8, 0.6, 0.9, worst=0.71, sites=4)


def train(out, data="colored-digits", method="erm", tests=(), **options):
    small = {"steps": 4, "eval_every": 2, "out": out}
    if data == "colored-digits":
        small |= {"data_options": {"samples": 60}, "model_options": {"widths": [8]}}
    return riskmatch.train(data, method, tests, **{**small, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def saved(run):
    return riskmatch.save_model(run, run.folder / "model", expected=EXPECTED, licence="CC0-1.0")


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def test_a_loaded_model_is_the_network_that_train_val_chooses(run, saved):
    model = riskmatch.load_model(saved)
    x = riskmatch.load_data("colored-digits", options={"samples": 60}).domains[0].x
    logits = run.model(step="train-val")(x)[1]
    assert torch.equal(model.network(x)[1], logits)
    np.testing.assert_allclose(model.predict_proba(x), logits.softmax(1).detach(), atol=1e-6)
    assert (model.predict(x, batch_size=7) == np.array(["0", "1"])[logits.argmax(1)]).all()
    assert model.predict(x[:1]).tolist() == model.predict(x)[:1].tolist()
    assert model.values["run"]["step"] == best_step(run.record)
    assert model.domains == ("0.9", "0.8", "0.1")
    assert model.expected == EXPECTED
    assert model.values["licence"] == "CC0-1.0"
    assert model.values["versions"]["torch"] == torch.__version__


def test_inputs_that_are_not_finite_are_refused_or_skipped(saved):
    model = riskmatch.load_model(saved)
    x = riskmatch.load_data("colored-digits", options={"samples": 60}).domains[0].x[:9].clone()
    expected, skipped = model.predict(x), []
    x[2, 0, 0, 0], x[4] = torch.nan, torch.inf
    with pytest.raises(ValueError, match="row 3: a value is not a finite number"):
        model.predict(x)
    found = model.outputs(x, batch_size=4, on_skip=lambda name, cause: skipped.append(name))
    assert skipped == ["3", "5"]
    assert found.rows == (0, 1, 3, 5, 6, 7, 8)
    assert (np.array(["0", "1"])[found.logits.argmax(1)] == expected[list(found.rows)]).all()


def test_the_folder_of_a_run_stands_for_it(run, saved, tmp_path):
    again = riskmatch.load_model(riskmatch.save_model(str(run.folder), tmp_path / "model"))
    assert again.values["run"] == riskmatch.load_model(saved).values["run"]


def test_the_error_for_the_folder_of_a_run_says_how_to_write_a_model(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = run.folder.name
    shutil.copytree(run.folder, name, ignore=shutil.ignore_patterns("model"))
    with pytest.raises(ModelError) as error:
        riskmatch.load_model(name)
    command = shlex.split(str(error.value).partition("makes one in ")[2].partition(": ")[2])
    subprocess.run(command, check=True)
    assert riskmatch.load_model(Path(name) / "model").classes


def test_held_out_scores_are_those_of_the_validation_split(run, saved):
    model = riskmatch.load_model(saved)
    rows = run.predictions
    step = model.values["run"]["step"]
    for name, scores in model.held_out.items():
        chosen = (rows["step"] == step) & (rows["domain"] == name) & (rows["split"] == "val")
        for field in ("label", "predicted", "confidence", "risk"):
            np.testing.assert_allclose(getattr(scores, field), rows[chosen][field], rtol=1e-5)
        assert scores.features.shape == (12, 8)
        assert scores.features.dtype == np.float16


def test_at_most_2000_samples_of_a_domain_are_held_out(tmp_path):
    n = 12_000
    x, y = torch.randn(n, 2), torch.arange(n) % 2
    run = train(tmp_path, {"A": (x, y), "B": (x[:50], y[:50])}, model_options={"widths": [4]})
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    assert {name: len(s.risk) for name, s in model.held_out.items()} == {"A": 2000, "B": 10}


def test_the_card_states_accuracy_step_and_licence(saved):
    card = (saved / "README.md").read_text()
    assert 'license: "CC0-1.0"' in card
    assert "80.0% is expected" in card
    assert "from 60.0% to 90.0%; at least the worst seen (71.0%) with probability 0.8" in card
    assert "(risks.png)" in card
    assert "riskmatch predict" in card
    with Image.open(saved / "risks.png") as figure:
        assert figure.format == "PNG"


def test_a_domain_that_was_held_out_is_marked(tmp_path):
    run = train(tmp_path, tests="0.1", method="rdm", warmup=1, lr_after=1e-3)
    folder = riskmatch.save_model(run, tmp_path / "model")
    assert riskmatch.load_model(folder).domains == ("0.9", "0.8")
    card = (folder / "README.md").read_text()
    assert "0.1 (not trained on)" in card
    assert "acts from step 1" in card


def test_a_step_before_the_method_acts_is_named(tmp_path):
    options = {"method": "rdm", "lr_after": 1e-3, "steps": 6, "keep": "all"}
    run = train(tmp_path, warmup=4, **options)
    best = best_step(run.record)
    assert best <= 4
    with pytest.warns(RunWarning, match=f"step {best}, and rdm acts from step 4.*after_warmup"):
        folder = riskmatch.save_model(run, tmp_path / "model")
    assert "the network is that of its warm-up" in (folder / "README.md").read_text()
    folder = riskmatch.save_model(run, tmp_path / "model", after_warmup=True, overwrite=True)
    values = riskmatch.load_model(folder).values["run"]
    assert (values["step"], values["step_chosen_by"]) == (6, "train-val-after-warmup")
    assert "warm-up" not in (folder / "README.md").read_text()
    with pytest.warns(RunWarning, match="never leaves"):
        never = train(tmp_path, warmup=9, **options)
    with pytest.raises(ValueError, match="never acts"):
        riskmatch.save_model(never, tmp_path / "other", after_warmup=True)


def test_a_regression_ships_its_last_step(tmp_path):
    x = torch.randn(40, 3)
    data = {"A": (x, x[:, 0]), "B": (x + 1, x[:, 0])}
    run = train(tmp_path, data, risk="squared", model_options={"widths": [4]})
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    assert model.values["run"]["step"] == 4
    np.testing.assert_allclose(model.predict(x), run.model()(x)[1][:, 0].detach(), atol=1e-6)
    with pytest.raises(ValueError, match="regression"):
        model.predict_proba(x)


def test_a_network_of_ones_own_is_passed_again(tmp_path):
    net = nn.Sequential(nn.Flatten(), nn.Linear(128, 2))
    x, y = torch.randn(40, 2, 8, 8), torch.arange(40) % 2
    run = train(tmp_path, {"A": (x, y), "B": (-x, y)}, model=net)
    folder = riskmatch.save_model(run, tmp_path / "model")
    model = riskmatch.load_model(folder, network=net)
    assert torch.equal(model.network(x), run.model(step="train-val")(x))
    with pytest.raises(ModelError, match="network="):
        riskmatch.load_model(folder)


def test_writing_replaces_a_model_and_nothing_else(run, folder, tmp_path):
    before = (folder / MODEL).read_bytes()
    riskmatch.save_model(run, folder)
    assert (folder / MODEL).read_bytes() != before  # another licence
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "text").write_text("chapter 1")
    with pytest.raises(ModelError, match="thesis exists"):
        riskmatch.save_model(run, other)
    assert {path.name for path in tmp_path.iterdir()} == {"model", "thesis"}


def test_a_failed_write_leaves_the_earlier_model(run, folder, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device", str(target))

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            riskmatch.save_model(run, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(folder.parent.iterdir()) == [folder]


def edit(folder, **changes):
    values = {**json.loads((folder / MODEL).read_text()), **changes}
    values["sha256"] = own_checksum(values)
    (folder / MODEL).write_text(json.dumps(values))


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


BREAK = {
    "a flipped bit of the weights": (lambda f: flip(f / WEIGHTS), f"{WEIGHTS}.*checksum"),
    "truncated weights": (
        lambda f: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:100]),
        f"{WEIGHTS}.*100 bytes",
    ),
    "tampered scores": (lambda f: flip(f / HELD_OUT), HELD_OUT),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "missing"),
    "another licence": (
        lambda f: (f / MODEL).write_text((f / MODEL).read_text().replace("CC0-1.0", "MIT")),
        f"{MODEL}.*checksum",
    ),
    "no JSON": (lambda f: (f / MODEL).write_text("{"), MODEL),
    "a list": (lambda f: (f / MODEL).write_text("[]"), "riskmatch model 2"),
    "another version": (lambda f: edit(f, format="riskmatch model 9"), "riskmatch model 9"),
    "an older state": (
        lambda f: edit(f, format="riskmatch model 1"),
        "format is 'riskmatch model 1'.*train the model again with this version",
    ),
    "a missing field": (lambda f: edit(f, run={}), "config"),
    "another network": (
        lambda f: edit(
            f,
            network={**json.loads((f / MODEL).read_text())["network"], "options": {"widths": [9]}},
        ),
        "size mismatch",
    ),
    "no model.json": (lambda f: (f / MODEL).unlink(), "train --all-domains"),
    "no folder": (lambda f: shutil.rmtree(f), "There is no"),
}


@pytest.mark.parametrize("case", BREAK)
def test_damage_is_named_in_one_line(folder, case):
    change, message = BREAK[case]
    change(folder)
    with pytest.raises(ModelError, match=message) as error:
        riskmatch.load_model(folder)
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


def test_the_folder_of_a_run_is_told_from_that_of_its_model(run, saved):
    with pytest.raises(ModelError, match=str(saved)):
        riskmatch.load_model(run.folder)


def test_advice_is_read_as_it_was_written(tmp_path):
    advice = Advice("pacs", "rdm", {"weight": 5.0}, {"steps": 900}, EXPECTED)
    write_advice(advice, tmp_path / "advice.json")
    assert read_advice(tmp_path / "advice.json") == advice


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "riskmatch advice 2"}, "riskmatch advice 2"),
        ({"options": {"stesp": 900}}, "'steps'"),
        ({"method": 3}, "method"),
        ({"expected": {"accuracy": 0.8}}, "expected.low is missing"),
        ({"expected": {"accuracy": 0.5, "low": 0.6, "high": 0.9, "level": 0.9}}, "low ≤ accuracy"),
        ({"expected": {**EXPECTED.to_json(), "sites": "4"}}, "expected.sites"),
        ({"expected": {**EXPECTED.to_json(), "sites": 0}}, "expected.sites"),
    ],
)
def test_advice_that_cannot_be_used_is_refused(tmp_path, change, message):
    values = {**Advice("pacs", "rdm").to_json(), **change}
    (tmp_path / "advice.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=message):
        read_advice(tmp_path / "advice.json")
