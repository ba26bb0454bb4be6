"""Sites that were left out: which runs are trained, what the model folder stores of them."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import riskmatch
from riskmatch.deployment import ModelError
from riskmatch.deployment.folder import LEFT_OUT, MODEL
from riskmatch.deployment.leaving_out import folds
from riskmatch.deployment.left_out import read_left_out
from riskmatch.metrics import find_metric
from riskmatch.runs.findings import RunWarning
from riskmatch.selection import best_step

SMALL = {"steps": 20, "eval_every": 10, "model_options": {"widths": [4]}, "lr": 0.01}


def sites(*names, rows=60):
    made = {}
    for k, name in enumerate(names):
        generator = torch.Generator().manual_seed(k)
        y = torch.arange(rows) % 2
        x = torch.randn(rows, 3, generator=generator)
        x[:, 0] += 2 * y
        made[name] = x, y
    return made


def train(out, data=None, **options):
    data = sites("A", "B", "C") if data is None else data
    wanted = {**SMALL, "out": out, "save": out / "model", "left_out": True, **options}
    return riskmatch.train(data, "erm", **wanted)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs and a model of three domains, with the lines that were reported."""
    out = tmp_path_factory.mktemp("left-out")
    lines = []
    train(out, on_left_out=lines.append)
    (out / "lines").write_text("\n".join(lines))
    return out


def test_ten_folds_hold_every_domain_once_and_siblings_together():
    names = [f"d{k}" for k in range(23)]
    sets = folds(names, together=[("d3", "d17")])
    assert len(sets) == 10
    assert sorted(name for group in sets for name in group) == sorted(names)
    assert any({"d3", "d17"} <= {*group} for group in sets)
    assert max(map(len, sets)) <= 4


def test_the_runs_are_those_of_the_model_without_a_domain_each(root):
    model = riskmatch.load_model(root / "model")
    assert list(model.left_out) == ["A", "B", "C"]
    for name, site in model.left_out.items():
        run = riskmatch.load_run(root / site.run)
        assert replace(run.config, test_domains=()) == model.config
        assert run.config.test_domains == (name,)
        assert run.record.status == "done"


def test_what_is_stored_is_what_the_network_without_the_site_says_on_it(root):
    x, y = sites("A", "B", "C")["B"]
    site = read_left_out(root / "model")["B"]
    data = sites("A", "B", "C")
    run = riskmatch.train(data, "erm", "B", out=root, **SMALL)
    features, outputs = run.model(step="train-val")(x)
    chosen = outputs.detach().argmax(1).numpy()
    assert site.samples == 60
    np.testing.assert_array_equal(site.y, y)
    np.testing.assert_array_equal(site.predicted, chosen)
    np.testing.assert_allclose(site.outputs, outputs.detach(), atol=1e-6)
    np.testing.assert_allclose(site.scores, outputs.softmax(1).detach(), atol=1e-6)
    np.testing.assert_allclose(site.features, features.detach(), rtol=1e-3, atol=1e-3)
    risks = torch.nn.functional.cross_entropy(outputs, y, reduction="none").detach()
    np.testing.assert_allclose(site.predictions.risk, risks, atol=1e-6)
    assert site.mean_risk == pytest.approx(float(risks.mean()), rel=1e-5)
    assert site.metrics["accuracy"] == np.mean(chosen == y.numpy())


def test_validation_samples_are_those_of_the_domains_that_were_trained_on(root):
    site = read_left_out(root / "model")["B"]
    run = riskmatch.load_run(root / site.run)
    at = run.evaluations[run.evaluations["step"] == best_step(run.record)]
    rows = at[(at["split"] == "val") & ~at["test"]]
    predicted = site.validation
    assert len(predicted.label) == 2 * 12
    right = np.mean(predicted.predicted == predicted.label)
    assert right == pytest.approx(rows["accuracy"].mean())
    assert predicted.risk.mean() == pytest.approx(rows["risk"].mean(), rel=1e-5)


def test_number_and_time_of_the_runs_are_stated_before_them(root):
    first, cost, *runs = (root / "lines").read_text().splitlines()
    assert "at most ten" in first
    assert "3 more runs" in cost
    assert re.search(r"about \d+:\d\d$", cost)
    assert [line[-1] for line in runs] == ["A", "B", "C"]


def test_large_sites_are_thinned_and_judged_on_all_samples(tmp_path):
    train(tmp_path, sites("A", "B", "C", rows=2500))
    site = read_left_out(tmp_path / "model")["A"]
    assert site.samples == 2500
    assert len(site.y) == len(site.outputs) == 2000
    assert len(site.features) == 500
    assert len(site.validation.label) == 2 * 500
    x, y = sites("A", "B", "C", rows=2500)["A"]
    run = riskmatch.load_run(tmp_path / site.run)
    predicted = run.model(step="train-val")(x)[1].argmax(1)
    assert site.metrics["accuracy"] == pytest.approx(float((predicted == y).float().mean()))
    assert site.metrics["accuracy"] != np.mean(site.predicted == site.y)


def test_a_finished_model_is_not_trained_or_scored_again(root, monkeypatch):
    before = (root / "model" / MODEL).stat().st_mtime_ns
    lines = []
    monkeypatch.setattr("riskmatch.deployment.leaving_out._scored", None)
    train(root, on_left_out=lines.append)
    assert len(lines) == 1
    assert (root / "model" / MODEL).stat().st_mtime_ns == before


def test_saving_the_same_model_again_keeps_its_left_out_sites(tmp_path):
    run = train(tmp_path)
    riskmatch.save_model(run, tmp_path / "model")
    assert list(read_left_out(tmp_path / "model")) == ["A", "B", "C"]


def test_another_model_does_not_keep_the_left_out_sites(tmp_path):
    train(tmp_path)
    other = riskmatch.train(sites("A", "B", "C"), "erm", out=tmp_path, seed=1, **SMALL)
    riskmatch.save_model(other, tmp_path / "model", overwrite=True)
    assert not (tmp_path / "model" / LEFT_OUT).exists()
    assert riskmatch.load_model(tmp_path / "model").left_out == {}


def test_runs_that_are_done_are_kept_after_an_interruption_and_the_same_call_goes_on(tmp_path):
    trained = []

    def interrupt(progress):
        trained.append(progress.step)
        if len(trained) == 70:  # in the third of the runs without a domain
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, on_step=interrupt)
    assert list(read_left_out(tmp_path / "model")) == ["A", "B"]
    steps = []
    train(tmp_path, on_step=lambda progress: steps.append(progress.step))
    assert steps == [*range(11, 21)]
    assert list(read_left_out(tmp_path / "model")) == ["A", "B", "C"]


def test_a_run_that_fails_is_named_and_blocks_no_other(tmp_path, monkeypatch):
    from riskmatch.engine import run as runs
    from riskmatch.engine.step import DivergedError

    whole = runs.train

    def fail(config, *args, **options):
        if config.test_domains == ("B",):
            raise DivergedError("The risk is NaN.", "risk", "A")
        return whole(config, *args, **options)

    monkeypatch.setattr(runs, "train", fail)
    with pytest.warns(RunWarning, match=r"no left-out site B.*NaN"):
        train(tmp_path)
    assert list(read_left_out(tmp_path / "model")) == ["A", "C"]


def test_siblings_are_left_out_together(tmp_path):
    data = sites("A", "B", "C", "D")
    train(tmp_path, data, left_out=[("B", "D")])
    stored = read_left_out(tmp_path / "model")
    assert stored["B"].run == stored["D"].run != stored["A"].run
    assert stored["B"].siblings == ("B", "D")
    assert stored["A"].siblings == ()
    assert riskmatch.load_run(tmp_path / stored["B"].run).config.test_domains == ("B", "D")


def test_siblings_of_the_advice_are_left_out_together(tmp_path):
    advice = {
        "format": "riskmatch advice 1",
        "data": "colored-digits",
        "method": "erm",
        "hparams": {},
        "options": {},
        "expected": None,
        "left_out": [["A"], ["B", "D"], ["C"]],
    }
    (tmp_path / "advice.json").write_text(json.dumps(advice))
    train(tmp_path, sites("A", "B", "C", "D"), advice=tmp_path / "advice.json")
    stored = read_left_out(tmp_path / "model")
    assert stored["B"].run == stored["D"].run != stored["A"].run
    assert stored["B"].siblings == ("B", "D")
    (tmp_path / "advice.json").write_text(json.dumps(advice | {"left_out": ["B+D"]}))
    with pytest.raises(ValueError, match=r"left_out\[0\] must be a list"):
        train(tmp_path, sites("A", "B", "C", "D"), advice=tmp_path / "advice.json")


def test_two_domains_are_not_left_out(tmp_path):
    lines = []
    train(tmp_path, sites("A", "B"), on_left_out=lines.append)
    assert "3" in lines[-1]
    assert riskmatch.load_model(tmp_path / "model").left_out == {}


@pytest.mark.parametrize(
    "options", [{"save": False}, {"test_domains": "A"}], ids=["no folder", "test domain"]
)
def test_left_out_needs_a_model_of_all_domains(tmp_path, options):
    with pytest.raises(ValueError, match="left_out needs save"):
        train(tmp_path, **options)


def test_a_regression_on_a_table_is_stored_in_the_unit_of_its_label(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=120), "site": np.repeat([*"ABC"], 40)})
    table["y"] = 1000 + 50 * table["x"]
    options = {"label": "y", "domain": "site", "task": "regression"}
    train(tmp_path, table, **options)
    site = read_left_out(tmp_path / "model")["A"]
    np.testing.assert_allclose(site.y, table["y"][:40], rtol=1e-5)
    assert site.scores is None
    value, _ = find_metric("rmse")(site.y, site.predicted)
    assert site.metrics["rmse"] == pytest.approx(value, rel=1e-5)


def test_groups_that_are_trained_on_are_not_counted(tmp_path):
    data = {name: (x, y, None) for name, (x, y) in sites("A", "B", "C").items()}
    groups = {name: torch.arange(60) // 2 for name in data}
    train(tmp_path, {n: v[:2] for n, v in data.items()}, group=groups)
    site = read_left_out(tmp_path / "model")["A"]
    run = riskmatch.load_run(tmp_path / site.run)
    shown = run.evaluations[(run.evaluations["domain"] == "A") & run.evaluations["test"]]
    at = shown[shown["step"] == best_step(run.record)].set_index("split")
    assert 0 < site.samples < 60
    assert site.mean_risk == pytest.approx(at.loc["train", "risk"])


def test_damage_is_named(root, tmp_path):
    import shutil

    folder = shutil.copytree(root / "model", tmp_path / "model")
    data = bytearray((folder / LEFT_OUT).read_bytes())
    data[-1] ^= 1
    (folder / LEFT_OUT).write_bytes(data)
    with pytest.raises(ModelError, match=rf"{LEFT_OUT} .*checksum"):
        riskmatch.load_model(folder)


def test_left_out_sites_are_read_without_torch(root):
    code = (
        "import sys; from riskmatch.deployment.left_out import read_left_out; "
        f"print(*read_left_out(__import__('pathlib').Path({str(root / 'model')!r})), "
        "'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["A", "B", "C", "False"]
