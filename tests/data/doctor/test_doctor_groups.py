"""The doctor names columns and file names that look like groups, and what a random split leaks."""

import re

import numpy as np
import pandas as pd
import pytest

from riskmatch import load_data
from riskmatch.data import Domain, split
from riskmatch.data.doctor import examine_data
from riskmatch.data.doctor.groups import check_names, leaked_share
from riskmatch.data.images.index import Entry, ImageIndex

COLUMNS = {"label": "ill", "domain": "site"}
N = 1200


def visits(**columns):
    """300 patients with four visits each; sex and diagnosis belong to the patient."""
    random = np.random.default_rng(0)
    patient = np.arange(N) // 4
    frame = {
        "patient": [f"p{k:03}" for k in patient],
        "sex": random.choice(["f", "m"], 300)[patient],
        "pressure": random.normal(120, 10, 300)[patient] + random.normal(0, 1, N),
        "pulse": random.integers(50, 110, N),
        "age": (age := random.integers(20, 90, N)),
        "risk": age**2 / 100,
        "month": random.integers(1, 13, N),
        "site": np.array(["a", "b", "c"])[patient % 3],
        "ill": random.choice(["yes", "no"], 300)[patient],
    }
    return pd.DataFrame({**frame, **columns})


def group_findings(data, **options):
    findings = examine_data(data, **options).findings
    return [finding for finding in findings if finding.kind == "groups"]


@pytest.mark.parametrize("ids", ["texts", "integers"])
def test_only_ids_of_patients_look_like_groups(ids):
    frame = visits()
    if ids == "integers":
        codes = np.random.default_rng(1).permutation(100_000)[:300]
        frame["patient"] = codes[np.arange(N) // 4]
    (finding,) = group_findings(load_data(frame, **COLUMNS))
    assert (finding.column, finding.severity) == ("patient", "warning")
    assert "300 values" in finding.message
    assert "99% of the validation rows" in finding.message
    assert "--group patient" in finding.cure


def test_numbered_texts_need_no_other_column_to_be_groups():
    frame = visits(patient=[f"doc-{k}" for k in np.arange(N) % 900])  # a third of them recur
    (finding,) = group_findings(load_data(frame, **COLUMNS))
    assert (finding.column, "900 values" in finding.message) == ("patient", True)
    assert "40% of the validation rows" in finding.message  # half of the rows, 0.8 of the time


def test_shuffled_numbers_and_ids_of_rows_are_no_groups():
    random = np.random.default_rng(2)
    texts = [f"p{k}" for k in np.arange(N)]
    for ids in (random.permutation(np.arange(N) // 4), np.arange(N), texts):
        frame = visits(patient=ids)
        assert not group_findings(load_data(frame, **COLUMNS))


def test_given_groups_are_described_instead():
    (finding,) = group_findings(load_data(visits(), **COLUMNS, group="patient"))
    assert finding.severity == "note"
    assert "300 groups in 1,200 rows" in finding.message
    assert "99% of the validation rows" in finding.message


@pytest.mark.parametrize("size", [1, 2, 5])
def test_leaked_share_is_that_of_random_splits(size):
    import torch

    groups = torch.arange(4000) // size
    whole = Domain("a", groups[:, None].float(), torch.zeros(4000).long())
    parts = split(whole, 0)
    trained = set(parts["train"].x.flatten().tolist())
    leaked = np.mean([value in trained for value in parts["val"].x.flatten().tolist()])
    assert leaked_share(groups.numpy()) == pytest.approx(leaked, abs=0.03)


def index(names):
    """An index of a tree domain/class/image with these names by domain and class."""
    entries = [
        Entry(f"{domain}/{label}/{name}.png", label, domain)
        for (domain, label), inside in names.items()
        for name in inside
    ]
    return ImageIndex.of("made", None, entries)


def concepts(shared):
    """Concepts of two classes, in an order that does not follow the classes, in three domains."""
    return {
        (domain, label): [
            f"{k:04x}" if shared else f"{domain}{k:04x}"
            for k in range(200)
            if (k * 7919 % 13 < 6) == (label == "cat")
        ]
        for domain in "abc"
        for label in ("cat", "dog")
    }


def test_names_that_recur_for_one_class_are_groups():
    (finding,) = check_names(index(concepts(shared=True)))
    assert "200 of 200" in finding.message
    assert "96% of the validation images" in finding.message  # 1 − 0.2²
    assert "--group stem" in finding.cure
    assert not list(check_names(index(concepts(shared=False))))
    grouped = index(concepts(shared=True)).grouped("stem")
    (finding,) = check_names(grouped)
    assert "200 groups in 600 images" in finding.message


@pytest.mark.parametrize("by", ["class", "domain"])
def test_numbered_files_are_no_groups(by):
    names = {}
    for domain in "abc":
        for c, label in enumerate(("cat", "dog")):
            start = 100 * c if by == "domain" else 0
            names[domain, label] = [f"pic_{k:03}" for k in range(start, start + 100)]
    assert not list(check_names(index(names)))


def test_prefixes_of_patients_are_groups_and_names_of_classes_are_not():
    patients = {
        (domain, label): [f"{domain}{label}{k // 5}_{k}" for k in range(100)]
        for domain in "ab"
        for label in ("sick", "well")
    }
    (finding,) = check_names(index(patients))
    assert "prefix" in finding.message
    assert re.search(r"'[ab](sick|well)\d+'", finding.message)
    assert "100% of the validation images" in finding.message
    assert "--group COLUMN" in finding.cure
    classes = {
        (d, f"class{c}"): [f"{d}_class{c}_{k}" for k in range(20)] for d in "ab" for c in range(40)
    }
    assert not list(check_names(index(classes)))
