"""``--group`` in train, sweep, report, embed, data doctor and data list."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import draw_pets

from riskmatch import summarise, train
from riskmatch.data import split
from riskmatch.data.catalogue import resolve
from riskmatch.data.images.cache import index_domains
from riskmatch.runs import predictions

COLUMNS = ("--label", "ill", "--domain", "site", "--group", "patient")
FAST = ("--steps", "6", "--eval-every", "3", "--model-option", "widths=[6]", "--quiet")


@pytest.fixture
def table(tmp_path):
    """Patients with four visits each, at several sites."""
    n, random = 480, np.random.default_rng(0)
    patient = np.arange(n) // 4
    frame = pd.DataFrame(
        {
            "patient": [f"p{k}" for k in patient],
            "sex": random.choice(["f", "m"], 120)[patient],
            "pressure": random.normal(size=n),
            "site": np.array(["a", "b", "c"])[np.arange(n) % 3],
            "ill": random.choice(["yes", "no"], n),
        }
    )
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return frame


def header(folder="runs"):
    (run,) = Path(folder).iterdir()
    return json.loads((run / "records.jsonl").read_text().splitlines()[0])


def test_train_states_groups_and_what_is_reported(riskmatch, table):
    words = ("--method", "erm", "--test-domain", "c", *FAST[:-1])
    done = riskmatch("train", "visits.csv", *COLUMNS, *words)
    assert done.code == 0, done.err
    assert "80 %" not in done.out
    assert "c: held out are the samples in groups that no training domain" in done.out
    assert header()["config"]["data_options"]["group"] == "patient"
    assert header()["data"]["shared_groups"] == ["a", "b", "c"]
    Path("run.toml").write_text('label = "ill"\ndomain = "site"\ngroup = "patient"\n')
    assert riskmatch("train", "visits.csv", "--config", "run.toml", *words).code == 0
    assert len(list(Path("runs").iterdir())) == 1


def test_a_sweep_by_group_is_compared_without_the_oracle(riskmatch, table):
    plan = ("--methods", "erm,coral", "--draws", "1", "--trials", "1")
    done = riskmatch("sweep", "plan", "s", "--data", "visits.csv", *COLUMNS, *plan, *FAST)
    assert done.code == 0, done.err
    assert riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet").code == 0
    assert riskmatch("sweep", "table", "s").code == 0
    refused = riskmatch("sweep", "table", "s", "--select", "test-val")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    for fact in ("test-val", "groups", "train-val"):
        assert fact in refused.err
    assert riskmatch("report", "s", "--out", "page.html", "--quiet").code == 0
    assert "test-val" not in Path("page.html").read_text()


def test_doctor_names_the_column_and_describes_a_given_one(riskmatch, table):
    done = riskmatch("data", "doctor", "visits.csv", *COLUMNS[:4], "--json")
    (found,) = [f for f in json.loads(done.out)["findings"] if f["kind"] == "groups"]
    assert (found["column"], found["severity"]) == ("patient", "warning")
    assert "99%" in found["message"]
    done = riskmatch("data", "doctor", "visits.csv", *COLUMNS)
    assert "120 groups" in done.out
    listed = riskmatch("data", "list", "visits.csv", *COLUMNS, "--json")
    assert [column["name"] for column in json.loads(listed.out)[0]["columns"]] == [
        "sex",
        "pressure",
    ]


@pytest.mark.parametrize(
    ("data", "words", "facts"),
    [
        ("visits.csv", ("--group", "patients"), ("'patients'", "patient")),
        ("visits.csv", ("--group", "site"), ("domain and group", "site")),
        ("pets", ("--group", "patient"), ("patient", "stem", "manifest")),
        ("pets.csv", ("--group", "patient"), ("patient", "pets.csv")),
        ("colored-digits", ("--group", "patient"), ("group", "colored-digits")),
    ],
)
def test_groups_that_there_are_not_are_one_line(riskmatch, table, data, words, facts, monkeypatch):
    pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").absolute()))
    draw_pets(Path("pets"))
    Path("pets.csv").write_text("path,label,domain\npets/ink/cat/0.png,cat,ink\n")
    roles = COLUMNS[:4] if data == "visits.csv" else ()
    test = "ink" if data.startswith("pets") else "c"
    done = riskmatch("train", data, *roles, *words, "--method", "erm", "--test-domain", test)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    for fact in facts:
        assert fact in done.err
    assert not Path("runs").exists()


def test_too_few_groups_of_a_domain_are_one_line(riskmatch, table):
    table["patient"] = table["patient"].where(table["site"] != "b", "one")
    table.to_csv("visits.csv", index=False)
    done = riskmatch("train", "visits.csv", *COLUMNS, "--method", "erm", "--test-domain", "c")
    assert (done.code, done.err.count("\n")) == (2, 1)
    for fact in ("'b'", "1 group", "two or more"):
        assert fact in done.err


@pytest.fixture
def pets(riskmatch, settled, monkeypatch, tmp_path):
    """Images of 12 animals in each of three styles, and a manifest that names the animals."""
    pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    root = draw_pets(tmp_path / "pets", each=12)
    rows = [
        (p.relative_to(tmp_path), p.parent.name, p.parent.parent.name, p.stem)
        for p in root.glob("*/*/*")
    ]
    frame = pd.DataFrame(rows, columns=["path", "label", "domain", "animal"])
    frame.to_csv(tmp_path / "pets.csv", index=False)
    return tmp_path


def test_names_of_files_and_columns_of_manifests_give_the_same_splits(riskmatch, pets):
    from riskmatch import load_data
    from riskmatch.data.splits import splits

    by_name = load_data(pets / "pets", group="stem")
    by_column = load_data(pets / "pets.csv", group="animal")
    for trial in (0, 1):
        one, other = (splits(data.domains, trial, ["oil"]) for data in (by_name, by_column))
        for domain, parts in one.items():
            for name, part in parts.items():
                assert part.groups.tolist() == other[domain][name].groups.tolist()
                assert part.y.tolist() == other[domain][name].y.tolist()


def test_embed_keeps_groups_of_files_and_of_manifests(riskmatch, pets):
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra riskmatch[images]")
    for data, group in (("pets", "stem"), ("pets.csv", "animal")):
        done = riskmatch("embed", data, "--group", group, "--out", f"{group}.npz")
        assert done.code == 0, done.err
        assert "--group group" in done.out
    one, other = np.load("stem.npz"), np.load("animal.npz")
    assert sorted(set(one["group"].tolist())) == list(range(12))
    assert one["group"].tolist() == other["group"].tolist()
    words = ("--group", "group", "--method", "erm", "--test-domain", "oil", *FAST[:4], "--quiet")
    done = riskmatch("train", "stem.npz", *words)
    assert done.code == 0, done.err
    assert header()["data"]["shared_groups"] == ["ink", "oil", "photo"]
    shown = riskmatch("report", "runs", "--out", "page.html", "--quiet")
    assert shown.code == 0, shown.err


def test_missing_groups_of_a_manifest_name_the_line(riskmatch, pets):
    lines = Path("pets.csv").read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    Path("pets.csv").write_text("\n".join(lines))
    done = riskmatch(
        "train", "pets.csv", "--group", "animal", "--method", "erm", "--test-domain", "oil"
    )
    assert (done.code, done.err.count("\n")) == (2, 1)
    for fact in ("line 5", "animal", "Give every image"):
        assert fact in done.err


def test_a_run_on_a_list_of_images_is_judged_by_its_columns(tmp_path):
    pets = draw_pets(tmp_path / "pets", each=12)
    files = sorted(pets.glob("*/*/*"))
    sex = np.random.default_rng(0).choice(["F", "M"], len(files))
    rows = [
        (
            f"./{p.relative_to(tmp_path)}" if k % 2 else p,
            p.parent.name,
            p.parent.parent.name,
            sex[k],
        )
        for k, p in enumerate(files)
    ]
    frame = pd.DataFrame(rows, columns=["path", "label", "domain", "sex"]).sample(frac=1)
    frame.to_csv(tmp_path / "pets.csv", index=False)
    images = {"size": 32, "pretrained": False}
    run = train(
        tmp_path / "pets.csv", "erm", "oil", model="lite0", model_options=images, steps=2,
        eval_every=2, batch_size=2, out=tmp_path / "runs", data_options={"augment": False},
    )  # fmt: skip
    (table,) = summarise(tmp_path / "runs", by=["sex"])["groups"]
    index = resolve(str(tmp_path / "pets.csv")).index()
    (domain,) = (d for d in index_domains(index) if d.name == "oil")
    part = split(domain, 0)["train"]
    stored = predictions.read(run.folder, 2)["oil"]["train"]
    names = [index.paths[part.x[k]].removeprefix("./") for k in stored.index]
    of_file = {
        str(p if k % 2 == 0 else p.relative_to(tmp_path)): sex[k] for k, p in enumerate(files)
    }
    right = pd.Series(stored.predicted == stored.label).groupby([of_file[name] for name in names])
    shown = {row[0]: (row[1], row[2].mean / 100) for row in table.rows}
    many = {name: (str(len(hits)), pytest.approx(hits.mean())) for name, hits in right}
    assert shown == {name: value for name, value in many.items() if int(value[0]) >= 10}
    assert sum(int(n) for n, _ in many.values()) == len(stored.label)
    for name, (n, _) in many.items():
        assert name in shown or f"{name} ({n})" in table.caption
