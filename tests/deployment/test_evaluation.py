"""Intervals of an evaluation, and data that do not fit the model."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

import riskmatch


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    x, y = torch.randn(60, 3), torch.arange(60) % 3
    run = riskmatch.train(
        {"A": (x, y), "B": (x + 1, y)},
        "erm",
        out=tmp_path_factory.mktemp("runs"),
        steps=4,
        model_options={"widths": [4]},
    )
    return riskmatch.load_model(riskmatch.save_model(run, run.folder / "model"))


def test_accuracy_and_risk_are_those_of_the_network(model):
    x, y = torch.randn(50, 3), torch.randint(3, (50,))
    table = riskmatch.evaluate(model, {"C": (x, y), "A": (x[:9], y[:9])}, level=0.9)
    _, logits = model.network(x)
    losses = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    risks = losses.detach().double().numpy()
    row = table.iloc[0]
    assert row["accuracy"] == (logits.argmax(1) == y).double().mean()
    np.testing.assert_allclose(row["risk"], risks.mean())
    half = norm.ppf(0.95) * risks.std(ddof=1) / 50**0.5
    np.testing.assert_allclose(
        [row["risk_low"], row["risk_high"]], risks.mean() + half * np.array([-1, 1])
    )
    assert list(table["trained_on"]) == [False, True]


def test_targets_of_a_regression_do_not_fit_a_classifier(model):
    x = torch.randn(8, 3)
    with pytest.raises(ValueError, match=r"a classifier.*a regression"):
        riskmatch.evaluate(model, {"C": (x, x[:, 0])})
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        riskmatch.evaluate(model, {"C": (x[:, :2], torch.zeros(8, dtype=torch.long))})
    with pytest.raises(ValueError, match="no inputs"):
        model.predict(x[:0])
    with pytest.raises(ValueError, match="'3'"):
        riskmatch.evaluate(model, {"C": (x, torch.full((8,), 3))})


@pytest.mark.parametrize("metric", ["accuracy", "risk"])
def test_repeated_samples_of_a_patient_widen_the_interval(model, metric):
    n, copies = 100, 9
    x, y = torch.randn(n, 3), torch.randint(3, (n,))
    alone = riskmatch.evaluate(model, {"C": (x, y)}).iloc[0]
    again = {"C": (x.repeat(copies, 1), y.repeat(copies))}
    patients = {"C": torch.arange(n).repeat(copies)}
    grouped = riskmatch.evaluate(model, again, group=patients)
    assert (grouped.attrs["unit"], grouped.iloc[0]["samples"]) == ("groups", n * copies)

    def width(row):
        return row[f"{metric}_high"] - row[f"{metric}_low"]

    assert width(grouped.iloc[0]) == pytest.approx(width(alone), rel=0.2)
    ignored = riskmatch.evaluate(model, again)
    assert ignored.attrs["unit"] == "samples"
    assert width(ignored.iloc[0]) == pytest.approx(width(alone) / 3, rel=0.1)


def test_the_group_of_training_is_that_of_evaluations_where_the_data_have_it(tmp_path):
    random, n = np.random.default_rng(0), 240
    frame = pd.DataFrame({"x": random.normal(size=n), "patient": np.arange(n) // 4})
    frame["site"], frame["ill"] = np.array(["a", "b"])[np.arange(n) % 2], frame["x"] > 0
    run = riskmatch.train(
        frame, "erm", label="ill", domain="site", group="patient", out=tmp_path, steps=4
    )
    model = riskmatch.load_model(riskmatch.save_model(run, tmp_path / "model"))
    assert riskmatch.evaluate(model, frame).attrs["unit"] == "groups"
    renamed = frame.rename(columns={"patient": "person"})
    assert riskmatch.evaluate(model, renamed).attrs["unit"] == "samples"
    named = riskmatch.evaluate(model, renamed, group="person")
    pd.testing.assert_frame_equal(named, riskmatch.evaluate(model, frame))
    with pytest.raises(ValueError, match=r"'persn'.*'person'"):
        riskmatch.evaluate(model, renamed, group="persn")
    with pytest.raises(TypeError, match="name of a column"):
        riskmatch.evaluate(model, renamed, group={"a": [1]})
