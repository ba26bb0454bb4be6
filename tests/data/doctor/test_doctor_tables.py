"""The doctor on tables: planted faults are found, and distances are what scipy and hand give."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from riskmatch.data import load_data
from riskmatch.data.doctor import examine_data
from riskmatch.data.doctor.tables import _distance

COLUMNS = {"label": "late", "domain": "airport"}
N = 600


def visits(**changes):
    random = np.random.default_rng(0)
    site = np.array(["EWR", "JFK", "LGA"])[np.arange(N) % 3]
    distance = random.normal(1000, 300, N)
    columns = {
        "distance": distance,
        "carrier": random.choice(["AA", "UA", None], N),
        "airport": site,
        "late": np.where(distance + random.normal(0, 300, N) > 1000, "yes", "no"),
    }
    return pd.DataFrame({**columns, **changes})


def findings(frame, **columns):
    """All but the columns that lift the metric, as distance does."""
    found = examine_data(load_data(frame, **{**COLUMNS, **columns})).findings
    found = [finding for finding in found if finding.kind != "lift"]
    return [(f.kind, f.severity, f.subject, f.message, f.cure) for f in found]


def test_ordinary_table_has_no_findings():
    assert findings(visits()) == []


@pytest.mark.parametrize("values", ["text", "number", "missing"])
def test_columns_that_determine_the_label_are_faults(values):
    late = visits()["late"] == "yes"
    leak = {
        "text": np.where(late, "delayed", "on time"),
        "number": late * 40.0 + np.arange(N) % 20,
        "missing": np.where(late, 1.0, np.nan),
    }[values]
    (found,) = findings(visits(leak=leak))
    assert found[:3] == ("label-leak", "fault", "leak")
    assert "--ignore leak" in found[4]


def test_target_of_a_regression_leaks_too():
    score = visits()["distance"] / 100 + np.random.default_rng(1).normal(0, 3, N)
    frame = visits(score=score, minutes=score * 60)
    for label in (score, (score * 10).round()):  # whole numbers with many values are targets too
        (found,) = findings(frame.assign(score=label), label="score", ignore=["late"])
        assert found[:3] == ("label-leak", "fault", "minutes")
    many = visits(late=[f"code {k % 400}" for k in range(N)], site=visits()["airport"])
    assert ("domain-leak", "warning", "site") in {f[:3] for f in findings(many)}


def test_columns_that_name_the_domain_are_warnings():
    codes = {"EWR": 10.0, "JFK": 20.0, "LGA": 30.0}
    frame = visits(zone=visits()["airport"].map(codes), town=visits()["airport"].str.lower())
    found = {(kind, severity, name) for kind, severity, name, _, _ in findings(frame)}
    assert {("domain-leak", "warning", "zone"), ("domain-leak", "warning", "town")} <= found
    assert not any(kind == "label-leak" for kind, _, _ in found)


def test_one_class_small_domains_and_identifiers():
    late = visits()["late"].where(visits()["airport"] != "LGA", "no")
    site = visits()["airport"].where(np.arange(N) > 0, "SFO")
    frame = visits(late=late, airport=site, flight=[f"flight {k}" for k in range(N)])
    found = {(kind, severity, name) for kind, severity, name, _, _ in findings(frame)}
    assert ("one-class", "warning", "LGA") in found
    assert ("small-domain", "fault", "SFO") in found
    assert ("identifier", "warning", "flight") in found
    assert ("one-class", "fault", "the data set") in {f[:3] for f in findings(visits(late="no"))}


@pytest.mark.parametrize(
    ("name", "severity", "cure"),
    [("code {}", "fault", "another label"), ("{}", "note", "--task regression")],
)
def test_more_classes_than_train_takes(name, severity, cure):
    (found,) = findings(visits(late=[name.format(k) for k in range(N)]))
    assert found[:3] == ("many-classes", severity, "late")
    assert "600 different values in 600 rows" in found[3]
    assert cure in found[4]


def test_numbers_that_are_read_as_texts():
    numbers = visits()["distance"].astype(str)
    one, *_ = findings(visits(distance=numbers.where(np.arange(N) != 200, "n.a.")))
    assert one[:3] == ("text-in-numbers", "warning", "distance")
    assert "599 of 600 values are numbers; row 201 is 'n.a.'" in one[3]
    assert "Correct" in one[4]
    commas, *_ = findings(visits(distance=numbers.str.replace(".", ",")))
    assert commas[:3] == ("decimal-comma", "warning", "distance")
    assert "decimal points" in commas[4]
    assert findings(visits(grade=(np.arange(N) // 3 % 3).astype(str))) == []


def test_rows_that_two_domains_share_are_counted_and_named():
    frame = visits()
    copies = frame.iloc[[0, 3]].assign(airport="JFK")  # rows 1 and 4, of EWR
    found = findings(pd.concat([frame, copies]))
    assert [(kind, name) for kind, _, name, _, _ in found] == [
        ("duplicate", "EWR"),
        ("duplicate", "JFK"),
    ]
    assert "2 of 200 rows" in found[0][3]
    assert "'JFK' (such as row 1 and row 601)" in found[0][3]


def test_drift_is_ranked_by_its_size():
    moved = visits()["airport"] == "LGA"
    frame = visits(
        a=np.random.default_rng(1).normal(0, 1, N) + moved,
        b=np.random.default_rng(2).normal(0, 1, N) + 3 * moved,
    )
    drift = [f for f in findings(frame) if f[0] == "drift"]
    assert [name for _, _, name, _, _ in drift] == ["b", "a"]
    x = frame["b"][moved], frame["b"][~moved]
    assert f"{ks_2samp(*x).statistic:.2f}" in drift[0][3]
    assert "'LGA'" in drift[0][3]


def test_distances():
    random = np.random.default_rng(0)
    one, other = random.normal(0, 1, 50), random.normal(0.5, 2, 80)
    assert _distance(one, other, False) == pytest.approx(ks_2samp(one, other).statistic)
    texts = np.array([0, 0, 1, np.nan]), np.array([0, 1, 1, 2.0])
    assert _distance(*texts, True) == pytest.approx((0.25 + 0.25 + 0.25 + 0.25) / 2)


def lifts(frame, **columns):
    found = examine_data(load_data(frame, **{**COLUMNS, **columns})).findings
    return {f.column: (f.severity, f.message) for f in found if f.kind == "lift"}


def test_columns_that_lift_the_metric_are_possible_leaks():
    random = np.random.default_rng(2)
    frame = visits(noise=random.normal(size=N))
    assert set(lifts(frame)) == {"distance"}
    severity, message = lifts(frame)["distance"]
    assert severity == "note"
    assert "accuracy" in message
    assert message.endswith("leak: possible")
    late = frame["late"] == "yes"
    arrival = late + random.normal(0, 0.35, N)  # it tells the label in 92 % of the rows
    severity, message = lifts(frame.assign(arrival=arrival))["arrival"]
    assert severity == "warning"
    assert message.endswith("leak: likely")
    score = frame["distance"] / 100 + random.normal(0, 3, N)
    severity, message = lifts(frame.assign(score=score), label="score", ignore=["late"])["distance"]
    assert "R²" in message


def test_whole_numbers_that_differ_in_every_row_are_identifiers():
    number = np.random.default_rng(3).permutation(N) + 70_000
    (found,) = findings(visits(number=number))
    assert found[:3] == ("identifier", "warning", "number")
    assert "--ignore number" in found[4]
    assert findings(visits(number=np.where(number == number[0], number[1], number))) == []
    assert findings(visits(number=number + 0.5)) == []


def test_domains_of_few_rows_are_warned_about_once():
    site = np.where(np.arange(N) < 12, "small", np.where(np.arange(N) < 55, "less", "large"))
    (found,) = findings(visits(airport=site))
    assert found[:3] == ("few-rows", "warning", "airport")
    assert "2 of 3 domains" in found[3]
    assert "'small' with 12" in found[3]


def test_missing_labels_are_counted_and_the_other_rows_examined(tmp_path):
    frame = visits(number=np.arange(N))
    frame.loc[[0, 3, 4], "late"] = None  # two of EWR, one of JFK
    frame.to_csv(tmp_path / "visits.csv", index=False)
    examined = examine_data(tmp_path / "visits.csv", options=COLUMNS)
    missing = {f.domain: f for f in examined.findings if f.kind == "missing-label"}
    assert {name: f.message.split(" in ")[1] for name, f in missing.items()} == {
        "EWR": "2 rows",
        "JFK": "1 rows",
    }
    assert "--drop-missing-labels" in missing["EWR"].cure
    assert "identifier" in {f.kind for f in examined.findings}
    assert examined.exit_code == 1
    assert len(examined) == N - 3
