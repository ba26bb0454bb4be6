"""Runs on data with groups: what is trained on, reported, recorded and refused."""

import json
import tarfile
from os import environ
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from riskmatch import choose, cost, load_data, load_run, results, train
from riskmatch.advice.baselines import baseline_values
from riskmatch.data.splits import splits
from riskmatch.engine import DataChangedError
from riskmatch.models.embedding import embed_to_file
from riskmatch.report.selected import select_runs
from riskmatch.selection import Rule

PATIENTS, VISITS = 120, 4
FAST = {"lr": 3e-3, "steps": 200, "eval_every": 100, "batch_size": 64}


def repeated_patients(seed=0, shared=False):
    """Patients with random features and labels, each with visits that are nearly the same."""
    random = np.random.default_rng(seed)
    data = {}
    for number, name in enumerate("abc"):
        draw = np.random.default_rng(seed + (0 if shared else number))
        x = draw.normal(size=(PATIENTS, 40)).repeat(VISITS, 0)
        y = draw.integers(0, 2, PATIENTS).repeat(VISITS)
        patient = np.arange(PATIENTS).repeat(VISITS) + (0 if shared else number * PATIENTS)
        x = x + 0.01 * random.normal(size=x.shape)
        data[name] = torch.tensor(x).float(), torch.tensor(y), [f"p{k}" for k in patient]
    return data


def accuracies(run, split="val"):
    last = run.evaluations[run.evaluations["step"] == run.evaluations["step"].max()]
    return last[last["split"] == split].set_index("domain")["accuracy"]


def test_memory_of_patients_is_perfect_on_random_splits_and_chance_on_groups(tmp_path):
    data = repeated_patients()
    plain = {name: (x, y) for name, (x, y, _) in data.items()}
    for given, low, high in ((plain, 0.97, 1.0), (data, 0.35, 0.65)):
        run = train(given, "erm", "c", model_options={"widths": [128]}, out=tmp_path, **FAST)
        validation = accuracies(run)[["a", "b"]]
        assert low <= validation.min() <= validation.max() <= high
        assert (accuracies(run, "train")[["a", "b"]] > 0.97).all()
        parts = splits(load_data(given).domains, 0, ["c"])
        neighbour = KNeighborsClassifier(1)
        for name in "ab":
            part = parts[name]
            neighbour.fit(part["train"].x, part["train"].y)
            assert low <= neighbour.score(part["val"].x, part["val"].y) <= high


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A run on domains that have the same patients."""
    folder = tmp_path_factory.mktemp("shared")
    return train(repeated_patients(shared=True), "erm", "c", out=folder, **FAST)


def test_where_groups_span_domains_unseen_ones_are_reported(shared):
    accuracy = {split: accuracies(shared, split)["c"] for split in ("train", "val")}
    assert accuracy["val"] > 0.97  # visits of patients that other domains train on
    assert 0.3 < accuracy["train"] < 0.7
    parts = splits(load_data(repeated_patients(shared=True)).domains, 0, ["c"])
    stored = shared.predictions
    for split, part in parts["c"].items():
        rows = stored[(stored["domain"] == "c") & (stored["split"] == split)]
        assert rows["label"].tolist() == part.y.tolist() * 2  # of two evaluations
    frame = results(shared.folder)
    chosen = choose(frame)
    reported = frame.set_index("step").loc[chosen["step"].iloc[0], "accuracy/train/c"]
    assert chosen["value"].iloc[0] == reported


def test_the_record_names_domains_that_share_groups(shared):
    header = json.loads((shared.folder / "records.jsonl").read_text().splitlines()[0])
    assert header["data"]["shared_groups"] == ["a", "b", "c"]
    assert load_run(shared.folder).record.data == shared.record.data
    assert results(shared.folder)["shared_groups"].iloc[0] == ("a", "b", "c")


@pytest.mark.parametrize(
    "rule",
    [
        "test-val",
        Rule("oracle", "the accuracy on the test domain", domains="test", step="last"),
        Rule("other-part", "the accuracy on others", domains="left-out", split="val"),
        Rule("seen", "the accuracy on training domains", domains="training", reported="val"),
    ],
)
def test_rules_that_score_groups_that_are_trained_on_are_refused(shared, rule):
    name = rule if isinstance(rule, str) else rule.name
    with pytest.raises(ValueError, match=rf"{name}.*'c'.*groups.*train-val"):
        choose(shared.folder, rule)
    page = select_runs(shared.folder)
    assert [list(one.by_rule) for one in page.by_data] == [["train-val", "leave-one-out"]]


def test_test_val_chooses_where_domains_have_groups_of_their_own(tmp_path):
    run = train(repeated_patients(), "erm", "c", out=tmp_path, **{**FAST, "steps": 100})
    assert choose(run.folder, "test-val")["test_domain"].tolist() == ["c"]
    assert "shared_groups" not in (run.folder / "records.jsonl").read_text()


def stop(progress):
    if progress.step == 3:
        raise KeyboardInterrupt


def test_other_groups_are_other_data(tmp_path):
    frame = pd.concat(
        pd.DataFrame({"x": x[:, 0].numpy(), "patient": group, "ill": y.numpy(), "site": name})
        for name, (x, y, group) in repeated_patients().items()
    )
    table, columns = tmp_path / "visits.csv", {"label": "ill", "domain": "site"}
    frame.to_csv(table, index=False)
    options = {**columns, "group": "patient", "steps": 6, "out": tmp_path / "runs"}
    with pytest.raises(KeyboardInterrupt):
        train(table, "erm", "c", on_step=stop, **options)
    frame["patient"] = np.roll(frame["patient"], 1)
    frame.to_csv(table, index=False)
    with pytest.raises(DataChangedError):
        train(table, "erm", "c", resume=True, **options)
    run = train(table, "erm", "c", restart=True, **options)
    assert run.config.data_options == {**columns, "group": "patient"}
    without = train(table, "erm", "c", **{**options, "group": None})
    assert without.config.id != run.config.id
    assert cost(table, "erm", "c", **columns, group="patient", steps=6).config.id == run.config.id


def test_boosting_is_scored_on_groups_that_it_was_not_trained_on(tmp_path):
    frame = pd.concat(
        pd.DataFrame(x.numpy()).assign(patient=group, ill=y.numpy(), site=name)
        for name, (x, y, group) in repeated_patients(shared=True).items()
    )
    found = []
    for group in (None, "patient"):
        columns = {"label": "ill", "domain": "site", "group": group}
        table = load_data(frame.drop(columns=[] if group else ["patient"]), **columns)
        file = tmp_path / f"{group}.json"
        found.append(baseline_values("gradient boosting", table, [("c",)], file)["c"])
    assert found[0] > 0.95
    assert 0.3 < found[1] < 0.7


@pytest.fixture
def emoji(tmp_path, monkeypatch):
    """Every 16th concept in three of the styles of emoji, as a folder of images."""
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra riskmatch[images]")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = Path(environ.get("RISKMATCH_DATA", "")) / "emoji.tar"
    if not archive.is_file():
        pytest.skip("There is no emoji.tar in the folder that RISKMATCH_DATA names.")
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()]
        concepts = set(sorted({Path(member.name).stem for member in members})[::16])
        for member in members:
            _, domain, _, name = member.name.split("/")
            if domain in ("google", "twitter", "openmoji-color") and Path(name).stem in concepts:
                place = tmp_path / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(tar.extractfile(member).read())
    return tmp_path / "emoji"


@pytest.mark.needs_data
def test_a_linear_probe_knows_concepts_that_it_has_seen_in_other_styles(emoji, tmp_path):
    embed_to_file(str(emoji), tmp_path / "emoji.npz", group="stem")
    found = {"shared": [], "unseen": [], "seen": []}
    for trial in range(3):
        options = {"model": "linear", "trial": trial, **FAST, "lr": 1e-3, "out": tmp_path / "runs"}
        plain = train(tmp_path / "emoji.npz", "erm", "google", **options)
        by_concept = train(tmp_path / "emoji.npz", "erm", "google", group="group", **options)
        found["shared"].append(accuracies(plain, "train")["google"])
        found["unseen"].append(accuracies(by_concept, "train")["google"])
        found["seen"].append(accuracies(by_concept, "val")["google"])
    shared, unseen, seen = (np.mean(values) for values in found.values())
    assert min(shared, seen) > 0.7
    assert unseen < 0.6
    options = {**FAST, "steps": 2, "eval_every": 2, "out": tmp_path / "runs"}
    frozen = train(
        emoji,
        "erm",
        "google",
        frozen=True,
        group="stem",
        data_options={"image_size": 64},
        **options,
    )
    on_file = train(tmp_path / "emoji.npz", "erm", "google", group="group", **options)
    labels = [
        run.predictions.groupby(["domain", "split"])["label"].apply(list)
        for run in (frozen, on_file)
    ]
    assert labels[0].equals(labels[1])
