"""A report on hundreds of domains stays small, and says which of them it shows."""

import re

import numpy as np
import pytest
from made_predictions import random
from made_records import evaluation, run

from riskmatch.report import write_report
from riskmatch.report.density import MAX_DOMAINS, snapshots
from riskmatch.runs import predictions, records

NAMES = [f"clinic {number:03d}" for number in range(200)]


@pytest.fixture
def runs(tmp_path):
    """Four runs on 200 domains with predictions of two steps."""
    rng = np.random.default_rng(0)
    for method in ("erm", "rdm", "vrex", "irm"):
        scores = {name: tuple(rng.uniform(50, 90, 2)) for name in NAMES}
        record = run(["clinic 003"], *(evaluation(k, **scores) for k in (10, 20)), method=method)
        folder = tmp_path / record.config.id
        folder.mkdir()
        records.write(folder, record)
        for step in (10, 20):
            by_domain = {
                name: {"train": random(48, 2, k), "val": random(12, 2, k)}
                for k, name in enumerate(NAMES)
            }
            predictions.write(folder, step, by_domain)
    return tmp_path


def test_a_page_on_200_domains_has_less_than_3_mb(runs, tmp_path):
    page = write_report(runs, tmp_path / "report.html").read_text("utf-8")
    assert len(page.encode()) < 3_000_000
    shown = re.findall(r"Of (\d+) domains, (\d+) are shown: test domains, and", page)
    assert shown == [("200", str(MAX_DOMAINS))] * 8


def test_few_domains_are_all_shown_and_of_many_the_test_domains():
    few, many = ({name: random(9) for name in NAMES[:n]} for n in (MAX_DOMAINS, 200))
    (shot,) = snapshots({5: few}, NAMES[:1])
    assert shot["mmd"]["domains"] == list(few)
    first, last = snapshots(dict.fromkeys((5, 6, 7), many), ["clinic 003", "clinic 117"])
    assert (first["step"], last["step"]) == (5, 7)
    assert list(last["domains"]) == NAMES
    assert len(last["mmd"]["domains"]) == len(last["mmd"]["value"]) == MAX_DOMAINS
    assert {"clinic 000", "clinic 003", "clinic 117", "clinic 199"} <= {*last["mmd"]["domains"]}
