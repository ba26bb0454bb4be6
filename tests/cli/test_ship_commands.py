"""``train --all-domains``, ``predict`` and ``evaluate``: a folder of images to predictions."""

import json
import shlex
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import CLASSES, DOMAINS, draw_pets
from tiny import DATA

from riskmatch import load_model
from riskmatch.advice import Advice, write_advice
from riskmatch.cli import main
from riskmatch.cli.train import Train
from riskmatch.deployment import Expected

NETWORK = (
    "--model lite0 --model-option pretrained=false --model-option size=32 "
    "--data-option augment=false"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the images pets, and the folder of a model of them."""
    root = tmp_path_factory.mktemp("ship")
    pets = draw_pets(root / "pets", each=3)
    advice = Advice(str(pets), "erm", {}, {"steps": 2, "eval_every": 2}, Expected(0.5, 0.3, 0.7))
    write_advice(advice, root / "advice.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        words = f"train {pets} --all-domains --advice {root}/advice.json {NETWORK} --licence MIT"
        assert main([*shlex.split(words), "--out", f"{root}/runs", "--save", f"{root}/model"]) == 0
    return root


@pytest.fixture
def shipped(trained, tmp_path):
    """The same in a folder of its own, as the current one."""
    for name in ("pets", "model"):
        shutil.copytree(trained / name, tmp_path / name)
    return tmp_path


def test_train_takes_method_options_and_expected_accuracy_from_the_advice(trained):
    model = load_model(trained / "model")
    assert (model.config.method, model.config.steps, model.config.test_domains) == ("erm", 2, ())
    assert (model.classes, model.domains) == (CLASSES, DOMAINS)
    assert model.expected == Expected(0.5, 0.3, 0.7)
    assert model.values["licence"] == "MIT"
    assert model.preprocessing.side == 36


def test_options_that_are_given_win_over_the_advice(tmp_path):
    advice = Advice("colored-digits", "rdm", {"weight": 5.0}, {"steps": 60, "lr": 0.1})
    write_advice(advice, tmp_path / "advice.json")
    words = [*DATA, "--all-domains", "--advice", str(tmp_path / "advice.json"), "--lr", "0.2"]
    config = Train.parse("train", words).config
    assert (config.method, config.hparams["weight"], config.steps, config.lr) == ("rdm", 5, 60, 0.2)
    other = Train.parse("train", [*words, "--method", "erm"]).config
    assert (other.method, other.hparams, other.steps) == ("erm", {}, 60)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ("--lr 0.1 --seed 3", None),
        ("--data-option samples=60", None),
        ("--lr 0.2", "lr is given"),
        ("--data-option samples=70", "data_options is given"),
        ("--method erm", "the run trains with erm"),
        ("pacs", "the run trains on colored-digits"),
    ],
)
def test_expected_accuracy_is_of_a_run_that_follows_the_advice(tmp_path, changes, why):
    options = {"lr": 0.1, "data_options": {"samples": 60}}
    advice = Advice("colored-digits", "rdm", {"weight": 5.0}, options, Expected(0.5, 0.4, 0.6))
    if changes == "pacs":
        advice, changes = replace(advice, data="pacs"), ""
    write_advice(advice, tmp_path / "advice.json")
    words = ["colored-digits", "--all-domains", "--advice", str(tmp_path / "advice.json")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        command = Train.parse("train", [*words, *changes.split()])
    assert command.prepared.expected == (None if why else advice.expected)
    causes = [str(one.message).partition(", and ")[2] for one in caught]
    assert [cause for cause in causes if cause] == ([f"{why}."] if why else [])


def test_the_same_command_finds_the_run_done_and_writes_the_model_again(riskmatch):
    words = ["train", *DATA, "--method", "erm", "--all-domains", "--steps", "2", "--json"]
    first = json.loads(riskmatch(*words).out)
    model = Path(first["model"])
    assert model == Path(first["folder"]) / "model"
    shutil.rmtree(model)
    assert riskmatch(*words).code == 0
    load_model(model)
    assert "all domains" in riskmatch("show", first["folder"]).out


@pytest.mark.parametrize(
    ("options", "names", "line"),
    [
        ("", ["0.9", "0.8", "0.1"], "3 more runs"),
        ("--no-left-out", [], None),
        ("--leave-out-together 0.9+0.8", [], "there are 2"),
    ],
)
def test_every_domain_is_left_out_in_turn_unless_told_otherwise(riskmatch, options, names, line):
    words = ["train", *DATA, "--method", "erm", "--all-domains", "--steps", "2", "--save", "model"]
    result = riskmatch(*words, *options.split())
    assert list(load_model("model").left_out) == names
    assert (line in result.err) if line else ("without" not in result.err)


def test_predictions_are_those_of_the_network_and_damaged_files_are_skipped(riskmatch, shipped):
    (shipped / "pets/ink/cat/bad.png").write_bytes(b"no image")
    (shipped / "pets/ink/cat/notes.txt").write_text("left out")
    for out in ("p.csv", "deep/p.parquet"):
        result = riskmatch("predict", "model", "pets", "-o", out, "--batch-size", "4")
        assert result.code == 0
        assert "18 predictions; 1 could not be read" in result.out
        assert "skipped ink/cat/bad.png" in result.err
    table, same = pd.read_csv("p.csv"), pd.read_parquet("deep/p.parquet")
    pd.testing.assert_frame_equal(table, same, check_dtype=False, rtol=1e-5)
    model = load_model("model")
    files = [f"pets/{path}" for path in table["path"]]
    assert sorted(table["path"]) == list(table["path"])
    assert list(table["class"]) == list(model.predict(files))
    np.testing.assert_allclose(table[["p_cat", "p_dog"]], model.predict_proba(files), atol=1e-5)
    np.testing.assert_allclose(table["confidence"], table[["p_cat", "p_dog"]].max(axis=1))


def test_a_manifest_for_predictions_needs_paths_alone(riskmatch, shipped):
    Path("list.csv").write_text("path\npets/ink/cat/0.png\npets/none.png\npets/oil/dog/1.png\n")
    result = riskmatch("predict", "model", "list.csv", "-o", "p.csv")
    assert result.code == 0
    assert "skipped pets/none.png: pets/none.png does not exist. Restore it" in result.err
    assert list(pd.read_csv("p.csv")["path"]) == ["pets/ink/cat/0.png", "pets/oil/dog/1.png"]


def test_evaluate_matches_classes_by_name(riskmatch, shipped):
    model, accuracies = load_model("model"), {}
    for domain in DOMAINS:
        files = {label: sorted(Path("pets", domain, label).iterdir()) for label in CLASSES}
        right = [model.predict(paths) == label for label, paths in files.items()]
        accuracies[domain] = np.concatenate(right).mean()
    whole = json.loads(riskmatch("evaluate", "model", "pets", "--json").out)
    assert {row["domain"]: row["accuracy"] for row in whole["domains"]} == accuracies
    assert all(row["trained_on"] and row["samples"] == 6 for row in whole["domains"])
    shutil.rmtree("pets/ink")
    for domain in ("oil", "photo"):  # dog is now label 0
        shutil.rmtree(f"pets/{domain}/cat")
    dogs = json.loads(riskmatch("evaluate", "model", "pets", "--json").out)["domains"]
    files = [f"pets/oil/dog/{k}.png" for k in range(3)]
    assert dogs[0]["accuracy"] == np.mean(model.predict(files) == "dog")
    shown = riskmatch("evaluate", "model", "pets")
    assert "expected on a new domain: 0.500 [0.300, 0.700] (90%)" in shown.out
    assert "oil (trained on)" in shown.out


def test_linked_folders_are_predicted_and_a_link_to_what_holds_it_is_not_followed(
    riskmatch, shipped
):
    (shipped / "linked").mkdir()
    (shipped / "linked" / "oil").symlink_to(shipped / "pets" / "oil")
    (shipped / "linked" / "loop").symlink_to(shipped / "linked")
    assert riskmatch("predict", "model", "linked", "-o", "p.csv").code == 0
    paths = [f"oil/{label}/{k}.png" for label in CLASSES for k in range(3)]
    assert list(pd.read_csv("p.csv")["path"]) == paths


def test_a_single_site_of_class_folders_is_evaluated_and_monitored(riskmatch, shipped):
    whole = json.loads(riskmatch("evaluate", "model", "pets", "--json").out)
    site = json.loads(riskmatch("evaluate", "model", "pets/oil", "--json").out)
    assert site["domains"] == [row for row in whole["domains"] if row["domain"] == "oil"]
    assert "layout" not in riskmatch("monitor", "model", "pets/oil").err


def test_strict_refuses_an_image_that_cannot_be_read(riskmatch, shipped):
    (shipped / "pets" / "oil" / "cat" / "0.png").write_text("no image")
    words = ("predict", "model", "pets", "-o", "p.csv")
    done = riskmatch(*words, "--strict")
    assert done.code == 2
    assert "oil/cat/0.png" in done.err
    assert not Path("p.csv").exists()
    assert "17 predictions; 1 could not be read" in riskmatch(*words).out
