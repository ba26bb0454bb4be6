"""Baselines: their settings are chosen by the rules that choose runs, and what they predict."""

import json
import random
from itertools import combinations
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from riskmatch.advice.baselines import BASELINES, baseline_values, baselines_for
from riskmatch.data import load
from riskmatch.engine.data_identity import identity_of
from riskmatch.files import to_json

DOMAINS = ("a", "b", "c", "d")
BOOSTING = "gradient boosting"
SETTINGS = range(3)


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    values = {"x": rng.normal(size=80), "label": rng.integers(0, 2, 80), "domain": [*DOMAINS] * 20}
    pd.DataFrame(values).to_csv(tmp_path / "table.csv", index=False)
    return load(str(tmp_path / "table.csv"), {"domain": "domain", "label": "label"})


def stored(table, file, digits):
    """Scores of every model that is needed, as a call that was interrupted leaves them."""
    rng = random.Random(0)
    groups = [*((d,) for d in DOMAINS), *combinations(DOMAINS, 2)]
    scores = {
        json.dumps([BOOSTING, list(group), setting]): {
            d: {split: round(rng.random(), digits) for split in ("train", "val")} for d in DOMAINS
        }
        for group in groups
        for setting in SETTINGS
    }
    settings = {name: baseline.settings for name, baseline in BASELINES.items()}
    identity = json.loads(to_json([identity_of(table).to_json(), settings, "accuracy"]))
    file.write_text(to_json({"identity": identity, "scores": scores}))
    return lambda group, setting: scores[json.dumps([BOOSTING, sorted(group), setting])]


@pytest.mark.parametrize("digits", [1, 6])  # with and without ties
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_setting_is_that_of_the_rule(table, tmp_path, leave_one_out, digits):
    known = stored(table, tmp_path / "boosting.json", digits)
    left_out = [(domain,) for domain in DOMAINS]
    file = tmp_path / "boosting.json"
    found = baseline_values(BOOSTING, table, left_out, file, leave_one_out=leave_one_out)
    for (domain,) in left_out:
        others = [d for d in DOMAINS if d != domain]

        def score(setting, domain=domain, others=others):
            if leave_one_out:
                return sum(known((domain, o), setting)[o]["train"] for o in others) / len(others)
            return sum(known((domain,), setting)[o]["val"] for o in others) / len(others)

        best = max(SETTINGS, key=score)
        assert found[domain] == known((domain,), best)[domain]["train"]


def test_domains_left_out_together_share_a_setting(table, tmp_path):
    known = stored(table, tmp_path / "boosting.json", 6)
    found = baseline_values(
        BOOSTING, table, [("a", "b"), ("c",), ("d",)], tmp_path / "boosting.json"
    )
    best = max(range(3), key=lambda s: fmean(known(("a", "b"), s)[d]["val"] for d in ("c", "d")))
    assert [found[d] for d in "ab"] == [known(("a", "b"), best)[d]["train"] for d in "ab"]


@pytest.fixture
def visits(tmp_path):
    """A label and a number that follow a column, its square is noise, and a category."""
    rng = np.random.default_rng(0)
    x, kind = rng.normal(size=400), rng.choice(["p", "q"], 400)
    days = 3 + 2 * x + 4 * (kind == "p") + 0.1 * rng.normal(size=400)
    values = {"x": x, "kind": kind, "days": days, "late": days > 6, "site": [*DOMAINS] * 100}
    frame = pd.DataFrame(values)
    frame.loc[:20, "x"] = np.nan
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return frame


def values_of(tmp_path, name, label, metric, **options):
    ignore = [column for column in ("late", "days") if column != label]
    table = load(str(tmp_path / "visits.csv"), {"domain": "site", "label": label, "ignore": ignore})
    left_out, file = [(domain,) for domain in DOMAINS], tmp_path / "baselines.json"
    return table, baseline_values(name, table, left_out, file, metric, **options)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_linear_models_use_numbers_and_categories(visits, tmp_path, leave_one_out):
    named = ("logistic regression", "late", "accuracy"), ("linear regression", "days", "rmse")
    for name, label, metric in named:
        _, found = values_of(tmp_path, name, label, metric, leave_one_out=leave_one_out)
        for value in found.values():
            assert value > 0.93 if metric == "accuracy" else value < 0.5 * visits["days"].std()


def test_trivial_baselines_are_the_most_frequent_class_and_the_mean_label(visits, tmp_path):
    table, classes = values_of(tmp_path, "most frequent class", "late", "accuracy")
    assert classes["a"] == pytest.approx(1 - visits[visits.site == "a"]["late"].mean(), abs=0.06)
    assert values_of(tmp_path, "most frequent class", "late", "auroc")[1]["a"] == 0.5
    table, numbers = values_of(tmp_path, "mean label", "days", "r2")
    assert -0.2 < numbers["a"] <= 0
    assert baselines_for(table) == ["mean label", "linear regression", "gradient boosting"]
