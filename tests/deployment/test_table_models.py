"""Models of tables: preprocessing in the folder, predictions, evaluation, columns that differ."""

import numpy as np
import pandas as pd
import pytest
import torch

import riskmatch
from riskmatch.data.columns import read_frame
from riskmatch.data.preprocessing import TablePreprocessing

SMALL = {"steps": 20, "eval_every": 10, "model_options": {"widths": [8]}, "dropout": 0.0}


def visits(n=120, seed=0):
    rng = np.random.default_rng(seed)
    age, ward = rng.normal(50, 20, n), rng.choice(["a", "b"], n)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "ward": ward,
            "visit": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "late": np.where((age > 50) ^ (ward == "a"), "yes", "no"),
            "cost": 3 * age + 100.5,
            "site": rng.choice(["north", "south"], n),
        }
    )


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """The folder of a classifier, trained on a CSV file beside it."""
    root = tmp_path_factory.mktemp("table")
    visits().to_csv(root / "visits.csv", index=False)
    columns = {"label": "late", "domain": "site", "ignore": ["cost"]}
    run = riskmatch.train(root / "visits.csv", "erm", out=root, **columns, **SMALL)
    return riskmatch.save_model(run, root / "model")


def test_rows_of_a_file_and_of_a_data_frame_are_prepared_as_in_training(late, tmp_path):
    model, new = riskmatch.load_model(late), visits(seed=1)
    assert (model.classes, model.domains) == (("no", "yes"), ("north", "south"))
    new.loc[0, "ward"] = "never seen"
    logits = model.network(model.preprocessing.transform(new))[1].detach()
    np.testing.assert_allclose(model.predict_proba(new), logits.softmax(1), atol=1e-6)
    new.drop(columns=["late", "cost", "site"]).to_parquet(tmp_path / "new.parquet")
    with pytest.warns(UserWarning, match="'ward'"):
        table = riskmatch.predict(late, tmp_path / "new.parquet", tmp_path / "p.csv")
    assert list(table["class"]) == list(model.predict(new))
    assert list(pd.read_csv(tmp_path / "p.csv")["row"]) == list(range(1, 121))


def test_what_training_did_not_have_is_named_by_column_and_count(late, tmp_path):
    new = visits(seed=1)
    new.loc[:2, "ward"] = "c"
    new.loc[4:5, "age"] = [1e6, 50 + 20 * 9]  # the second is within ten standard deviations
    new["visit"] = None
    with pytest.warns(UserWarning, match="Column") as caught:
        table = riskmatch.predict(late, new)
    age, ward, visit = (str(warning.message) for warning in caught)
    assert "'age'" in age
    assert "1 of 120 rows, such as 1e+06" in age
    assert "'ward' has values that training did not see in 3 of 120 rows, such as c" in ward
    assert "'visit' is missing from all 120 rows" in visit
    assert len(table) == 120
    with pytest.raises(ValueError, match=r"'age'.*'ward'.*'visit'"):
        riskmatch.predict(late, new, tmp_path / "p.csv", strict=True)
    assert not (tmp_path / "p.csv").exists()
    assert len(riskmatch.predict(late, visits(seed=1), strict=True)) == 120


def test_numbers_that_are_constant_in_training_and_differ_are_named():
    fitted = TablePreprocessing.fit(pd.DataFrame({"year": [2024, 2024]}))
    values = read_frame(pd.DataFrame({"year": [2025, 2024, None]}), fitted.columns)
    (line,) = fitted.unlike_training(values)
    assert "other than 2024" in line
    assert "1 of 3 rows, such as 2025" in line


def test_the_card_lists_the_columns(late):
    card = (late / "README.md").read_text()
    assert "A classifier of 2 classes (network table), trained with ERM on 2 domains." in card
    assert "columns age (number), ward (category), visit (date)\n" in card
    assert "- method: ERM\n" in card


def test_evaluation_takes_the_columns_of_training(late, tmp_path):
    model, new = riskmatch.load_model(late), visits(seed=1)
    new["site"] = np.where(new["site"] == "north", "east", "south")
    table = riskmatch.evaluate(model, new)
    right = pd.Series(model.predict(new) == new["late"]).groupby(new["site"]).mean()
    np.testing.assert_allclose(table["accuracy"], [right["east"], right["south"]])
    assert list(table["trained_on"]) == [False, True]
    new.drop(columns="site").to_csv(tmp_path / "fifth.csv", index=False)
    whole = riskmatch.evaluate(model, tmp_path / "fifth.csv")
    assert (list(whole["domain"]), list(whole["samples"])) == (["fifth"], [120])


def test_a_regression_predicts_in_the_unit_of_its_label(tmp_path):
    columns = {"label": "cost", "domain": "site", "ignore": ["late"]}
    options = {**SMALL, "steps": 200, "lr": 0.01}
    run = riskmatch.train(visits(), "erm", out=tmp_path, risk="squared", **columns, **options)
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    new = visits(seed=1).dropna()
    predicted = model.predict(new)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "lowest mean validation RMSE" in card
    assert "ccuracy" not in card
    assert np.corrcoef(predicted, new["cost"])[0, 1] > 0.9
    assert abs(predicted.mean() - new["cost"].mean()) < new["cost"].std()
    table = riskmatch.evaluate(model, new)
    errors = (predicted - new["cost"]) / visits()["cost"].std(ddof=0)
    expected = (errors**2).groupby(new["site"]).mean()
    np.testing.assert_allclose(table["risk"], expected, rtol=1e-3)
    exported = riskmatch.export(model, tmp_path / "m.pt2", format="torch", inputs=new)
    program = torch.export.load(exported.path).module()
    (again,) = program(model.preprocessing.transform(new))
    np.testing.assert_allclose(again.detach(), predicted, rtol=1e-4)


def test_inputs_that_are_no_rows_of_the_table_are_refused(late):
    model = riskmatch.load_model(late)
    prepared = model.preprocessing.transform(visits(seed=1))
    assert len(model.predict(prepared)) == 120
    for wrong, message in (
        (prepared + 9, "last 1 columns.*codes.*below 4.*data frame"),
        (-prepared, "codes"),
        (prepared + 0.5, "codes"),
        (prepared + 1j, "real numbers, got torch.complex64"),
        (prepared[:, 1:], r"\(n, 10\), got \(120, 9\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(wrong)
    nested = visits(seed=1)
    nested.columns = pd.MultiIndex.from_product([["visit"], nested.columns])
    for call in (model.predict, lambda table: riskmatch.evaluate(model, table)):
        with pytest.raises(ValueError, match="2 levels of names"):
            call(nested)


def test_the_export_of_a_table_is_checked_on_its_file(late, tmp_path):
    assert riskmatch.export(late, tmp_path / "m.pt2", format="torch").checked == 100


def test_a_model_of_a_data_frame_knows_its_columns(tmp_path):
    frame = visits().drop(columns="cost").rename(columns={"late": 0})
    run = riskmatch.train(frame, "erm", out=tmp_path, label="0", domain="site", **SMALL)
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    assert model.table == {"label": "0", "domain": "site"}
    found = riskmatch.monitor(model, frame, permutations=99)
    assert list(dict.fromkeys(found.tests["site"])) == ["north", "south"]
    with pytest.raises(ValueError, match="no column '0', the label"):
        riskmatch.monitor(model, frame.drop(columns=[0]))
