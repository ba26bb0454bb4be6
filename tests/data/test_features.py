"""Files of features as data sets: what embed writes can be trained on."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from riskmatch import load_data, train
from riskmatch.data import Domain, DomainSet
from riskmatch.data.catalogue import find_images, known_domains, resolve
from riskmatch.data.features import random_view, read_features, write_features
from riskmatch.defaults import resolve as resolve_defaults
from riskmatch.defaults import run_config
from riskmatch.engine import DataChangedError
from riskmatch.objectives import RDM

SUFFIXES = [".npz", ".parquet"]


def features(views=1, seed=0, n=24, width=5):
    rng = torch.Generator().manual_seed(seed)
    shape = (n, width) if views == 1 else (n, views, width)
    y = torch.arange(n) % 3
    domains = tuple(
        Domain(name, torch.randn(shape, generator=rng) + y.view(-1, *[1] * (len(shape) - 1)), y)
        for name in ("day", "dusk", "night")
    )
    augment = None if views == 1 else random_view
    return DomainSet("pets", domains, 3, class_names=("cat", "dog", "emu"), augment=augment)


def written(path, **changes):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs the extra riskmatch[parquet]")
    write_features(features(**changes), path)
    return path


def npz(path, **columns):
    np.savez(path, **columns)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("views", [1, 3])
def test_written_features_are_read_back(tmp_path, suffix, views):
    expected = features(views)
    data = load_data(written(tmp_path / f"pets{suffix}", views=views))
    assert (data.name, data.names, data.class_names) == (
        "pets",
        expected.names,
        expected.class_names,
    )
    assert data.augment is expected.augment
    for one, other in zip(data.domains, expected.domains, strict=True):
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    name = resolve(str(tmp_path / f"pets{suffix}"))
    assert name.contents == "features"
    assert known_domains(name.name) == expected.names


def test_three_columns_are_enough(tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 2))
    columns = {"domain": np.array(list("ababab")), "label": np.arange(6) // 2, "features": x}
    data = read_features(npz(tmp_path / "own.npz", **columns))
    assert (data.names, data.classes, data.class_names) == (("a", "b"), 3, ())
    np.testing.assert_array_equal(data.domains[1].x, x[1::2].astype(np.float32))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_train_takes_a_file_of_features(tmp_path, suffix):
    path = written(tmp_path / f"pets{suffix}")
    run = train(path, "rdm", "dusk", steps=40, warmup=10, eval_every=20, out=tmp_path / "runs")
    assert run.config.model == "linear"
    assert Path(run.config.data).is_absolute()
    assert run.config.lr == RDM.training["lr"].default * 20
    logits = run.model()(features().domains[1].x)[1]
    assert logits.shape == (24, 3)
    assert run.record.data.classes == ("cat", "dog", "emu")


def test_defaults_on_features_are_those_of_a_frozen_backbone(tmp_path):
    path = str(written(tmp_path / "pets.npz"))
    frozen = resolve_defaults("rdm", "pacs", frozen=True)
    on_file = resolve_defaults("rdm", path)
    for name in ("lr", "lr_after", "warmup", "batch_size", "weight"):
        assert on_file[name].value == frozen[name].value
    assert on_file["model_options"].value == {}
    with pytest.raises(ValueError, match=r"pets.npz holds features.*frozen"):
        run_config("rdm", path, ["dusk"], frozen=True)


def stop(progress):
    if progress.step == 3:
        raise KeyboardInterrupt


def test_changed_file_is_noticed(tmp_path):
    path, options = written(tmp_path / "pets.npz"), {"steps": 6, "out": tmp_path / "runs"}
    with pytest.raises(KeyboardInterrupt):
        train(path, "erm", "dusk", on_step=stop, **options)
    written(path, seed=1)
    with pytest.raises(DataChangedError, match="changed since this run started"):
        train(path, "erm", "dusk", resume=True, **options)
    written(path)
    train(path, "erm", "dusk", resume=True, **options)
    written(path, seed=1)
    with pytest.warns(UserWarning, match="data differ"):
        train(path, "erm", "dusk", **options)


def test_networks_for_one_view_refuse_several(tmp_path):
    path, out = written(tmp_path / "pets.npz", views=2), tmp_path / "runs"
    assert train(path, "erm", "dusk", steps=4, out=out).record.status == "done"
    with pytest.raises(ValueError, match=r"several views.*mlp.*linear"):
        train(path, "erm", "dusk", steps=4, model="mlp", out=out)


def test_features_are_not_images(tmp_path):
    path = written(tmp_path / "pets.npz")
    with pytest.raises(ValueError, match=r"pets.npz holds features, not images"):
        find_images(str(path))


GOOD = {
    "domain": np.array(["a", "a", "b", "b"]),
    "label": np.array([0, 1, 0, 1]),
    "class": np.array(["x", "y", "x", "y"]),
    "view": np.zeros(4, np.int64),
    "features": np.ones((4, 2), np.float32),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": None}, "no column 'features'"),
        ({"domain": None}, "no column 'domain'"),
        ({"label": np.array([0, 1])}, "'label': 2"),
        ({"label": np.array([np.nan, 1, 0, 1])}, "a label is infinite or not a number"),
        ({"label": np.array(list("abab"))}, "label must hold integers from 0.*tags"),
        ({"label": np.array([-1, 1, 0, 1])}, "label must hold integers from 0"),
        ({"features": np.full((4, 2), np.nan)}, "features must be finite"),
        ({"features": np.ones(4)}, "features must be finite floats of shape"),
        ({"class": np.array(["x", "y", "z", "y"])}, "label 0 has two classes, x and z"),
        ({"view": np.array([0, 1, 0, 2])}, "view must count"),
        ({"domain": np.array(["a", {}, "b", "b"])}, "damaged.*[Oo]bject arrays"),
    ],
)
def test_unusable_columns_raise_in_one_line(tmp_path, changes, message):
    columns = {name: v for name, v in {**GOOD, **changes}.items() if v is not None}
    path = npz(tmp_path / "bad.npz", **columns)
    with pytest.raises(ValueError, match=message) as caught:
        read_features(path)
    assert "bad.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("damage", ["empty", "cut", "text", "other array"])
def test_damaged_files_raise_in_one_line(tmp_path, suffix, damage):
    path = written(tmp_path / f"pets{suffix}")
    data = path.read_bytes()
    if damage == "other array":
        with open(path, "wb") as file:
            np.save(file, np.zeros(3))
    else:
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "text": b"hello"}[damage])
    with pytest.raises(ValueError, match="damaged") as caught:
        load_data(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parquet_with_features_of_two_lengths_raises(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra riskmatch[parquet]")
    table = {"domain": ["a", "b"], "label": [0, 1], "features": [[1.0, 2.0], [1.0]]}
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(table), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x.parquet.*one length"):
        load_data(tmp_path / "x.parquet")


def test_missing_file_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone.npz"):
        load_data(tmp_path / "gone.npz")


def test_record_of_a_run_on_features_reads_back(tmp_path):
    run = train(written(tmp_path / "pets.npz"), "erm", "dusk", steps=2, out=tmp_path / "runs")
    first = json.loads((run.folder / "records.jsonl").read_text().splitlines()[0])
    assert first["config"]["data"].endswith("pets.npz")
    assert first["data"]["content"]
