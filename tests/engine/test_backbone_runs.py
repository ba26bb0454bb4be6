"""Runs on image files with a pretrained backbone, fine-tuned or frozen."""

import tarfile
from collections import Counter
from dataclasses import replace
from os import environ
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_run, final_state
from torch.nn.functional import cross_entropy

from riskmatch.data import Domain, DomainSet, load, split
from riskmatch.engine.assemble import domains_of, network
from riskmatch.engine.evaluate import validation_views
from riskmatch.engine.load import final_predictions, load_run
from riskmatch.engine.run import train
from riskmatch.models import Trunk
from riskmatch.models.embedding import embed_to_file
from riskmatch.runs.config import RunConfig

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("efficientnet_lite_pytorch")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three domains of two classes: red and blue noise, with another brightness in each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for domain, light in (("day", 255), ("dusk", 200), ("night", 150)):
        for channel, label in ((0, "red"), (2, "blue")):
            place = tmp_path / "pictures" / domain / label
            place.mkdir(parents=True)
            for number in range(2):
                pixels = np.zeros((32, 32, 3), dtype=np.uint8)
                pixels[..., channel] = rng.integers(light // 2, light, (32, 32))
                Image.fromarray(pixels).save(place / f"{number}.png")
    return tmp_path / "pictures"


def config(folder, **changes):
    base = RunConfig(
        data=str(folder),
        test_domains=("dusk",),
        method="erm",
        model="lite0",
        model_options={"frozen": True},
        data_options={"image_size": 32},
        lr=1e-3,
        dropout=0.1,
        batch_size=2,
        steps=30,
        eval_every=15,
    )
    return replace(base, **changes)


def interrupted(run, out, step):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, out, on_step=on_step)
    train(run, out, resume=True)
    return out / run.id


@pytest.mark.parametrize("views", [1, 2])
def test_frozen_run_learns_and_resumes_to_the_same_bits(folder, tmp_path, views):
    run = config(folder, model_options={"frozen": True, "views": views})
    record = train(run, tmp_path / "a")
    assert record.evaluations[-1].scores["dusk"]["train"].metrics["accuracy"] == 1
    assert_same_run(tmp_path / "a" / run.id, interrupted(run, tmp_path / "b", step=7))
    weights = [name for name in final_state(tmp_path / "a" / run.id) if name.startswith("model/")]
    assert weights == ["model/classifier.bias", "model/classifier.weight"]


@pytest.mark.parametrize("views", [1, 2])
def test_model_of_a_frozen_run_takes_images(folder, tmp_path, views):
    run = config(folder, steps=5, model_options={"frozen": True, "views": views})
    record = train(run, tmp_path, predictions=True)
    model = load_run(tmp_path / run.id).model()
    assert not model.training
    for domain in load(str(folder), {"image_size": 32}).domains:
        part = split(domain, run.trial)["val"]
        with torch.no_grad():
            logits = model(part.x[:])[1]
        risk = cross_entropy(logits, part.y).item()
        assert risk == pytest.approx(record.evaluations[-1].scores[domain.name]["val"].risk, 1e-4)


@pytest.fixture
def pacs(tmp_path, monkeypatch):
    """Five images of two classes in each domain of PACS."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = Path(environ.get("RISKMATCH_DATA", "")) / "PACS.tar"
    if not archive.is_file():
        pytest.skip("There is no PACS.tar in the folder that RISKMATCH_DATA names.")
    counts = Counter()
    with tarfile.open(archive) as tar:
        for member in tar:
            *_, domain, label, name = ("", "", *member.name.split("/"))
            if member.isfile() and label in ("dog", "guitar") and counts[domain, label] < 5:
                counts[domain, label] += 1
                place = tmp_path / "pacs" / domain / label
                place.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(tar.extractfile(member).read())
    assert len(counts) == 8
    return tmp_path / "pacs"


@pytest.mark.needs_data
def test_model_of_a_frozen_run_gives_the_stored_predictions_on_real_images(pacs, tmp_path):
    run = config(pacs, test_domains=("sketch",), steps=8, eval_every=8, data_options={})
    train(run, tmp_path, predictions=True)
    loaded = load_run(tmp_path / run.id)
    model, stored = loaded.model(), loaded.predictions
    for domain in load(str(pacs)).domains:
        for name, part in split(domain, run.trial).items():
            rows = stored[(stored["domain"] == domain.name) & (stored["split"] == name)]
            with torch.no_grad():
                logits = model(part.x[:])[1]
            best = logits.softmax(1).max(1)
            assert rows["label"].tolist() == part.y.tolist()
            assert rows["predicted"].tolist() == best.indices.tolist()
            risks = cross_entropy(logits, part.y, reduction="none")
            np.testing.assert_allclose(rows["confidence"], best.values, rtol=1e-4)
            np.testing.assert_allclose(rows["risk"], risks, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("views", [1, 2])
def test_run_on_a_file_of_features_has_the_weights_of_the_frozen_run(folder, tmp_path, views):
    frozen = config(folder, steps=6, model_options={"frozen": True, "views": views})
    embed_to_file(str(folder), tmp_path / "pictures.npz", views=views, image_size=32)
    plain = {"model": "linear", "model_options": {}, "data_options": {}}
    on_file = replace(frozen, data=str(tmp_path / "pictures.npz"), **plain)
    records = [train(run, tmp_path) for run in (frozen, on_file)]
    assert records[0].evaluations[-1].scores == records[1].evaluations[-1].scores
    first, second = (final_state(tmp_path / run.id) for run in (frozen, on_file))
    assert first == second


def test_fine_tuned_run_resumes_to_the_same_bits(folder, tmp_path):
    options = {"head": "cosine", "scale": 5.0}
    run = config(folder, model_options=options, batch_size=1, steps=3, eval_every=3, lr=1e-4)
    train(run, tmp_path / "a")
    assert_same_run(tmp_path / "a" / run.id, interrupted(run, tmp_path / "b", step=2))
    model = load_run(tmp_path / "a" / run.id).model()
    start = config(folder, model_options=options, steps=1)
    assert model.trunk.body._bn0.running_mean.equal(fresh(start).trunk.body._bn0.running_mean)
    assert not model.trunk.body._bn0.weight.equal(fresh(start).trunk.body._bn0.weight)


def test_augmented_validation_images_follow_from_seed_and_step(folder, tmp_path):
    options = {"model_options": {}, "batch_size": 1, "steps": 4, "eval_every": 2, "lr": 1e-4}
    plain = config(folder, **options)
    run = replace(plain, augment_validation=True)
    before = train(plain, tmp_path / "a").evaluations
    after = train(run, tmp_path / "a").evaluations
    for one, other in zip(before, after, strict=True):
        for domain in ("day", "night"):
            assert one.scores[domain]["train"] == other.scores[domain]["train"]
            assert one.scores[domain]["val"].risk != other.scores[domain]["val"].risk
        assert one.scores["dusk"] == other.scores["dusk"]  # the test domain
    assert_same_run(tmp_path / "a" / run.id, interrupted(run, tmp_path / "b", step=3))
    last = final_predictions(load_run(tmp_path / "a" / run.id))
    assert last["day"]["val"].risk.mean() == pytest.approx(after[-1].scores["day"]["val"].risk)


def test_every_evaluation_has_validation_views_of_its_own():
    x, y = torch.zeros(1, 1), torch.zeros(1, dtype=torch.long)
    domains = DomainSet(
        "views",
        (Domain("a", x, y), Domain("b", x, y)),
        classes=2,
        augment=lambda x, g: x + torch.rand(1, generator=g),
    )
    config = RunConfig("views", ("b",), "erm", augment_validation=True)
    views, later = (validation_views(config, domains, step) for step in (5, 6))
    assert torch.equal(views("a", "val")(x), views("a", "val")(x))
    assert not torch.equal(views("a", "val")(x), later("a", "val")(x))
    assert views("a", "train") is views("b", "val") is None
    plain = validation_views(replace(config, augment_validation=False), domains, 5)
    assert plain("a", "val") is None


def fresh(run):
    return network(run, domains_of(run))


@pytest.mark.parametrize("options", [{"frozen": True}, {}], ids=["frozen", "fine-tuned"])
def test_backbone_is_built_once_per_run(folder, tmp_path, monkeypatch, options):
    built, init = [], Trunk.__init__

    def counted(self, *arguments):
        built.append(self)
        init(self, *arguments)

    monkeypatch.setattr(Trunk, "__init__", counted)
    run = config(folder, model_options=options, batch_size=1, steps=1, eval_every=1)
    train(run, tmp_path / "a")
    assert len(built) == 1
    domains = domains_of(run)  # as a sweep does, once for several runs
    train(run, tmp_path / "b", domains=domains)
    assert len(built) == 2


def test_invalid_options_raise_before_images_are_read(folder):
    run = config(folder, model_options={"frozen": True, "haed": "cosine"})
    with pytest.raises(ValueError, match=r"option of lite0 'haed'. Did you mean 'head'"):
        domains_of(run, on_progress=lambda *_: pytest.fail("embedding"))
    mlp = config(folder, model="mlp")
    with pytest.raises(ValueError, match="Unknown option of mlp 'frozen'"):
        domains_of(mlp)
