"""Settings of gradient boosting are chosen by the rules that choose runs."""

import json
import random
from itertools import combinations
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from riskmatch.advice.boosting import SETTINGS, boosting_values
from riskmatch.data import load
from riskmatch.engine.data_identity import identity_of
from riskmatch.files import to_json

DOMAINS = ("a", "b", "c", "d")


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
        json.dumps([list(group), setting]): {
            d: {split: round(rng.random(), digits) for split in ("train", "val")} for d in DOMAINS
        }
        for group in groups
        for setting in range(len(SETTINGS))
    }
    identity = json.loads(to_json([identity_of(table).to_json(), SETTINGS, "accuracy"]))
    file.write_text(to_json({"identity": identity, "scores": scores}))
    return lambda group, setting: scores[json.dumps([sorted(group), setting])]


@pytest.mark.parametrize("digits", [1, 6])  # with and without ties
@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_setting_is_that_of_the_rule(table, tmp_path, leave_one_out, digits):
    known = stored(table, tmp_path / "boosting.json", digits)
    left_out = [(domain,) for domain in DOMAINS]
    found = boosting_values(
        table, left_out, tmp_path / "boosting.json", leave_one_out=leave_one_out
    )
    for (domain,) in left_out:
        others = [d for d in DOMAINS if d != domain]

        def score(setting, domain=domain, others=others):
            if leave_one_out:
                return sum(known((domain, o), setting)[o]["train"] for o in others) / len(others)
            return sum(known((domain,), setting)[o]["val"] for o in others) / len(others)

        best = max(range(len(SETTINGS)), key=score)
        assert found[domain] == known((domain,), best)[domain]["train"]


def test_domains_left_out_together_share_a_setting(table, tmp_path):
    known = stored(table, tmp_path / "boosting.json", 6)
    found = boosting_values(table, [("a", "b"), ("c",), ("d",)], tmp_path / "boosting.json")
    best = max(range(3), key=lambda s: fmean(known(("a", "b"), s)[d]["val"] for d in ("c", "d")))
    assert [found[d] for d in "ab"] == [known(("a", "b"), best)[d]["train"] for d in "ab"]
