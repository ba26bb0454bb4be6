"""Commands on tables: train, sweep, report, doctor, list."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import draw_pets

COLUMNS = ("--label", "late", "--domain", "airport")
FAST = ("--steps", "6", "--eval-every", "3", "--model-option", "widths=[6]", "--quiet")


@pytest.fixture
def table(tmp_path):
    n, random = 90, np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "distance": np.where(random.random(n) < 0.1, np.nan, random.normal(1000, 300, n)),
            "carrier": random.choice(["AA", "UA"], n),
            "airport": np.array(["JFK", "LGA", "EWR"])[np.arange(n) % 3],
            "late": random.choice(["yes", "no"], n),
            "minutes": random.integers(-20, 90, n),
        }
    )
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return frame


def one_line(done, *facts):
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for fact in facts:
        assert fact in done.err
    return True


def test_text_in_a_column_of_numbers_is_warned_about_once(riskmatch, table):
    table["minutes"] = table["minutes"].astype(str).where(np.arange(len(table)) != 4, "n.k.")
    table.to_csv("visits.csv", index=False)
    words = ("--method", "erm", "--all-domains", *FAST[:-1])
    done = riskmatch("train", "visits.csv", *COLUMNS, *words)
    assert done.code == 0
    (warning,) = [line for line in done.err.splitlines() if line.startswith("riskmatch: ")]
    for fact in ("'minutes'", "row 5 is 'n.k.'", "89 of 90", "Correct"):
        assert fact in warning


def test_train_names_columns_of_the_table(riskmatch, table):
    words = ("--method", "rdm", "--test-domain", "JFK", "--warmup", "3", *FAST)
    done = riskmatch("train", "visits.csv", *COLUMNS, "--ignore", "minutes", *words)
    assert done.code == 0, done.err
    (folder,) = Path("runs").iterdir()
    config = json.loads((folder / "records.jsonl").read_text().splitlines()[0])["config"]
    columns = {"label": "late", "domain": "airport", "ignore": ["minutes"]}
    assert (config["data_options"], config["model"]) == (columns, "table")
    assert json.loads((folder / "preprocessing.json").read_text())["kind"] == "table"
    Path("run.toml").write_text('label = "late"\ndomain = "airport"\nignore = ["minutes"]\n')
    again = riskmatch("train", "visits.csv", "--config", "run.toml", *words)
    assert again.code == 0
    assert len(list(Path("runs").iterdir())) == 1


def test_regression_prints_risks_alone(riskmatch, table):
    words = ("--label", "minutes", "--domain", "airport", "--ignore", "late", "--risk", "huber")
    train = ("--method", "erm", "--test-domain", "JFK", *FAST[:-1])
    done = riskmatch("train", "visits.csv", *words, *train)
    assert done.code == 0
    assert "mean risk" in done.out
    assert "accuracy" not in done.out
    assert "nan" not in done.out + done.err
    shown = riskmatch("show")
    assert shown.code == 0
    assert "Points of accuracy" not in shown.out


def test_sweep_and_report(riskmatch, table, tmp_path):
    plan = (
        "--data",
        "visits.csv",
        *COLUMNS,
        "--methods",
        "erm,coral",
        "--draws",
        "2",
        "--trials",
        "1",
    )
    done = riskmatch("sweep", "plan", "s", *plan, *FAST)
    assert done.code == 0, done.err
    assert riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet").code == 0
    Path("visits.csv").rename("gone.csv")  # records can be shown without their data
    shown = riskmatch("sweep", "table", "s")
    assert all(name in shown.out for name in ("ERM", "CORAL", "JFK", "LGA", "EWR"))
    assert riskmatch("report", "s", "-o", "report.html").code == 0
    assert "visits" in Path("report.html").read_text()


def test_table_of_regressions_shows_their_error(riskmatch, table):
    columns = ("--label", "minutes", "--domain", "airport", "--ignore", "late")
    words = ("--method", "erm", "--test-domain", "JFK", "--risk", "squared", "--out", "s", *FAST)
    assert riskmatch("train", "visits.csv", *columns, *words).code == 0
    table_of_errors = riskmatch("sweep", "table", "s")
    assert "RMSE on the 80 % part of the test domain" in table_of_errors.out
    refused = riskmatch("sweep", "table", "s", "--metric", "accuracy")
    assert one_line(refused, "'accuracy'", "'mae', 'r2', 'rmse'")


def test_doctor_and_list(riskmatch, table):
    table.assign(leak=table["late"] + "!").to_csv("visits.csv", index=False)
    done = riskmatch("data", "doctor", "visits.csv", *COLUMNS)
    assert done.code == 1
    assert "90 rows" in done.out
    assert "--ignore leak" in done.out
    clean = riskmatch("data", "doctor", "visits.csv", *COLUMNS, "--ignore", "leak", "--json")
    assert clean.code == 0
    assert json.loads(clean.out)["rows"] == 90
    (row,) = json.loads(riskmatch("data", "list", "visits.csv", *COLUMNS, "--json").out)
    assert (row["domains"], row["classes"], row["samples"]) == (["EWR", "JFK", "LGA"], 2, 90)
    assert [column["type"] for column in row["columns"]][:2] == ["number", "category"]
    assert "distance  number" in riskmatch("data", "list", "visits.csv", *COLUMNS).out
    target = ("--label", "minutes", "--domain", "airport", "--quiet")
    assert riskmatch("data", "doctor", "visits.csv", *target).code == 0
    shown = riskmatch("data", "doctor", "visits.csv", *target[:-1]).out
    assert "JFK" in shown
    assert "smallest class" not in shown


def test_list_of_one_data_set(riskmatch, monkeypatch, tmp_path):
    (only,) = json.loads(riskmatch("data", "list", "colored-digits", "--json").out)
    assert only["name"] == "colored-digits"
    pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")
    draw_pets(tmp_path / "pets")
    (pets,) = json.loads(riskmatch("data", "list", "pets", "--json").out)
    assert (pets["domains"], pets["classes"], pets["samples"]) == (["ink", "oil", "photo"], 2, 12)
    assert one_line(riskmatch("data", "list", "nowhere/pets"), "There is no nowhere/pets")
    doctor = riskmatch("data", "doctor", "pets", *COLUMNS)
    assert one_line(doctor, "label applies only to tables", "pets")
