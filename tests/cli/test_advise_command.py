"""``riskmatch advise``: from data to advice, and from advice to a model."""

import html
import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pets import draw_pets
from scipy.stats import t

from riskmatch import advise, choose, load_model, results
from riskmatch.advice import Advised, read_advice, write_advice
from riskmatch.advice.advising import advice_for
from riskmatch.advice.judging import harms, prediction_interval
from riskmatch.advice.planning import METHODS, plan
from riskmatch.cli import main
from riskmatch.cli.progress import SweepDisplay
from riskmatch.cli.train import Train
from riskmatch.data import Domain, DomainSet
from riskmatch.deployment import Expected
from riskmatch.files import to_json
from riskmatch.report.selected import select
from riskmatch.runs import predictions
from riskmatch.runs.frame import read_results
from riskmatch.sweep import Protocol

TINY = "--methods rdm --draws 1 --jobs 1 --steps 4 --eval-every 2 --option warmup=1"
DIGITS = f"advise colored-digits {TINY} --data-option samples=60"
TABLE = f"advise visits.csv --label late --domain site {TINY}"


def visits(path):
    rng = np.random.default_rng(0)
    late, sites = np.arange(240) % 2, np.repeat(list("ABCD"), 60)
    kinds = rng.choice(["x", "y"], 240)
    columns = {"age": rng.normal(size=240) + 3 * late, "kind": kinds, "site": sites}
    pd.DataFrame({**columns, "late": late}).to_csv(path, index=False)


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """A folder with advice on coloured digits."""
    root = tmp_path_factory.mktemp("advised")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert main([*shlex.split(DIGITS), "--quiet"]) == 0
    return root


@pytest.fixture
def folder(advised, tmp_path, riskmatch):
    shutil.copytree(advised, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_the_same_command_continues_and_prints_the_advice(riskmatch, folder):
    shutil.rmtree(next(Path("advice/runs").iterdir()))
    Path("advice/siblings.json").write_text("damaged")
    page = Path("advice/advice.html").read_text()
    result = riskmatch(*shlex.split(DIGITS))
    assert result.code == 0
    assert "1 of 9 runs to train: about 0:0" in result.err.partition("done before")[0]
    assert "9 runs (8 done before)" in result.err
    for fact in ("90 % prediction interval", "random-effects", "the worst seen", "train-val"):
        assert fact in result.out
    for fact in ("--all-domains", "RDM"):
        assert fact in result.out
    first = page.partition('class="verdict">')[2].partition("</p>")[0]
    assert "ERM does not beat the most frequent class" in first  # after four steps
    assert first in html.escape(result.out)
    again = riskmatch(*shlex.split(DIGITS), "--json", "--quiet")
    assert json.loads(again.out) == json.loads(Path("advice/advice.json").read_text())


def test_the_page_is_one_file_without_scripts(folder):
    page = Path("advice/advice.html").read_text()
    for fact in ("prediction interval", "riskmatch train colored-digits", "RDM", "0.9"):
        assert fact in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_train_follows_the_advice(riskmatch, folder):
    advice = read_advice("advice/advice.json")
    values = json.loads(Path("advice/advice.json").read_text())
    assert (advice.method, advice.options["steps"], len(values["methods"])) == ("erm", 4, 4)
    words = [*shlex.split(values["command"])[1:], "--save", "model", "--quiet"]
    assert riskmatch(*words).code == 0
    model = load_model("model")
    assert model.expected == advice.expected
    assert model.config.data_options == {"samples": 60}


@pytest.mark.parametrize("data", ["colored-digits", "visits.csv", "pacs"])
def test_train_with_advice_has_the_configuration_that_was_compared(riskmatch, data):
    visits("visits.csv")
    frozen = {"model_options": {"frozen": True}, "steps": 1500} if data == "pacs" else {}
    table = {"label": "late", "domain": "site"} if data == "visits.csv" else {}
    choices = {"match": "variance", **frozen, "data_options": table}
    for run in Protocol(data, ("rdm",), (("A",),), draws=3, trials=1, choices=choices).runs():
        write_advice(advice_for(run.config, Expected(0.5, 0.4, 0.6)), "advice.json")
        command = Train.parse("train", [data, "--all-domains", "--advice", "advice.json"])
        assert command.config == replace(run.config, test_domains=())


def test_harm_is_a_loss_beyond_its_interval_with_the_risks_side_by_side(folder):
    results = read_results(["advice"])
    (selected,) = select(results, "train-val").values()
    rows = selected.chosen.set_index(["variant", "test_domain"])
    run, step = rows.loc[("rdm moments", "0.1"), ["run", "step"]]
    erm_run, erm_step = rows.loc[("erm", "0.1"), ["run", "step"]]
    runs = Path("advice/runs")
    for name, at, right in ((run, step, 0), (erm_run, erm_step, 1)):
        stored = predictions.read(runs / name, at)
        part = stored["0.1"]["train"]
        stored["0.1"]["train"] = replace(part, predicted=np.abs(part.label - 1 + right))
        predictions.write(runs / name, at, stored)
    found = {(one.variant, one.domain): one for one in harms(selected, runs, ["0.9", "0.8", "0.1"])}
    harm = found[("rdm moments", "0.1")]
    assert harm.interval == 0  # every sample is lost
    assert harm.figure.startswith(b"\x89PNG")
    assert harm.acts == rows.loc[("rdm moments", "0.1"), "acts"]
    assert "not by matching" not in str(replace(harm, acts=True))
    assert "not by matching" in str(replace(harm, acts=False))
    shutil.rmtree(runs / run / "predictions")
    again = {(one.variant, one.domain): one for one in harms(selected, runs, ["0.9", "0.8", "0.1"])}
    base, own = (rows.loc[(name, "0.1"), "value"] for name in ("erm", "rdm moments"))
    assert (("rdm moments", "0.1") in again) == (base - own > 0.02)


def left_out_besides(domain):
    """Accuracies of ERM on each other domain in the run without it and the other."""
    frame = results("advice").query("method == 'erm'")
    chosen = choose("advice", rule="leave-one-out").set_index(["variant", "test_domain"])
    frame = frame[frame["step"] == chosen.loc[("erm", domain), "step"]]
    return [
        row[f"accuracy/train/{other}"]
        for _, row in frame.iterrows()
        if domain in row["test_domains"] and len(row["test_domains"]) == 2
        for other in row["test_domains"]
        if other != domain
    ]


def test_four_sites_of_a_table_are_chosen_for_by_leave_one_out(riskmatch):
    visits("visits.csv")
    values = json.loads(riskmatch(*shlex.split(TABLE), "--json").out)
    assert values["selection"] == "leave-one-out"
    assert [one["method"] for one in values["methods"]] == [
        *("erm", "rdm variance", "rdm", "most frequent class"),
        *("logistic regression", "gradient boosting"),
    ]
    for domain, check in values["checks"].items():
        accuracy = values["methods"][0]["values"][domain]
        assert check["value"] == pytest.approx(accuracy)
        expected = prediction_interval(left_out_besides(domain))
        assert check["expected"] == pytest.approx(expected.to_json())
    assert list(values["checks"]) == list("ABCD")
    assert "90 % are promised" in values["notes"][-1]
    trivial = values["methods"][3]
    majority = np.array([*trivial["values"].values()])
    assert max(abs(majority - 0.5)) < 0.1  # half of every site is late
    shown = f"most frequent class of the other domains: {100 * majority.mean():.1f} %"
    assert shown in " ".join(values["findings"])
    erm = np.array([*values["methods"][0]["values"].values()]) - majority
    beaten = erm.mean() > t.ppf(0.975, 3) * erm.std(ddof=1) / 2
    assert values["beats_trivial"] == beaten
    assert values["findings"][0].startswith("Expected" if beaten else "ERM does not beat")
    assert "Siblings were looked for by probes" in " ".join(values["findings"])
    assert "too few for an adjusted p-value below 0.05" in " ".join(values["notes"])
    boosting = values["methods"][-1]["values"]
    assert list(boosting) == list("ABCD")
    assert min(boosting.values()) > 0.8
    assert min(values["methods"][-2]["values"].values()) > 0.8  # logistic regression
    tiny = {"steps": 4, "eval_every": 2, "warmup": 1}
    again = advise(
        "visits.csv", methods=["rdm"], draws=1, label="late", domain="site", choices=tiny
    )
    assert json.loads(to_json(again.to_json())) == values
    Path("advice/baselines.json").write_text("damaged")
    words = [*shlex.split(values["command"])[1:], "--save", "model", "--quiet"]
    assert riskmatch(*words).code == 0
    assert load_model("model").config.data_options == {"label": "late", "domain": "site"}
    words = [*shlex.split(TABLE), "--leave-out-together", "A+B", "--json"]
    together = json.loads(riskmatch(*words).out)
    assert together["left_out"] == [["A", "B"], ["C"], ["D"]]
    assert together["selection"] == "train-val"
    assert len(json.loads(Path("advice/baselines.json").read_text())["scores"]) == 3 * (1 + 2 + 3)


def test_images_have_frozen_features_and_domains_that_share_images_are_left_out_together(
    riskmatch, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pets = draw_pets(tmp_path / "pets", each=5)
    shutil.copytree(pets / "ink", pets / "pen")
    network = "--model-option pretrained=false --model-option size=32 --data-option augment=false"
    words = f"advise pets {network} --methods coral --draws 1 --jobs 1 --steps 2 --json"
    values = json.loads(riskmatch(*words.split()).out)
    assert values["left_out"] == [["ink", "pen"], ["oil"], ["photo"]]
    assert values["options"]["model_options"]["frozen"] is True
    assert "ink and pen" in " ".join(values["notes"])
    assert "ink and pen share images" in " ".join(values["findings"])
    assert "logistic regression" in [one["method"] for one in values["methods"]]


def test_a_regression_is_advised_on(riskmatch):
    visits("visits.csv")
    words = f"advise visits.csv --label age --domain site --ignore kind {TINY} --metric mae --json"
    values = json.loads(riskmatch(*words.split()).out)
    assert [one["method"] for one in values["methods"]][-3:] == [
        *("mean label", "linear regression", "gradient boosting"),
    ]
    assert set(values["expected"]) == {"mae", "low", "high", "level", "worst", "sites"}
    erm, *_, linear, _ = (one["values"] for one in values["methods"])
    assert values["expected"]["worst"] == max(erm.values())
    assert max(linear.values()) < 1.2  # the standard deviation within classes is 1
    assert "mean label" in " ".join(values["findings"][:2])
    assert "MAE" in Path("advice/advice.html").read_text()


def test_a_quick_answer_takes_a_tenth_of_the_steps():
    names = DomainSet(
        "made", tuple(Domain(d, torch.zeros(9, 2), torch.arange(9.0)) for d in "abcd"), 0
    )

    def steps(quick, draws, selection):
        groups = [(d,) for d in "abcd"]
        runs = plan("x.npz", names, METHODS, draws, groups, selection, {}, quick)
        for run in runs:
            assert run.config.hparams.get("warmup", 0) < run.config.steps
        return sum(run.config.steps for run in runs)

    share = steps(True, 1, "train-val") / steps(False, 3, "leave-one-out")
    assert 0.03 < share < 0.13


def test_quick_has_one_draw_and_no_pairs(riskmatch):
    visits("visits.csv")
    words = "advise visits.csv --label late --domain site --methods rdm --jobs 1 --quick --json"
    done = riskmatch(*words.split(), "--steps", "6", "--eval-every", "3", "--option", "warmup=1")
    values = json.loads(done.out)
    assert values["selection"] == "train-val"
    assert "12 of 12 runs to train" in done.err.partition("done before")[0]
    assert values["options"]["steps"] == 6  # what is given wins


def test_an_interrupted_command_ends_with_the_cure(riskmatch, monkeypatch):
    def stop(display, board):
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepDisplay, "change", stop)
    result = riskmatch(*shlex.split(DIGITS), "--quiet")
    assert result.code == 3
    assert "Interrupted; 0 of 9 runs are done. Repeat the same command" in result.err
    assert not Path("advice/advice.json").exists()


def test_failed_runs_are_left_out_unless_they_are_those_of_erm(riskmatch):
    words = shlex.split(DIGITS.replace("--methods rdm", "--methods vrex"))
    some = json.loads(riskmatch(*words, "--option", "weight=1e300", "--json").out)
    assert [one["method"] for one in some["methods"]] == ["erm", "most frequent class"]
    assert "3 of 6 runs failed" in " ".join(some["notes"])
    result = riskmatch(*words, "--option", "lr=1e30", "--out", "other", "--quiet")
    assert result.code == 3
    assert "6 of 6 runs failed" in result.err
    assert "Repeat the same command" in result.err
    assert not Path("other/advice.json").exists()


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("advise nothing", ["nothing"]),
        ("advise visits.csv --label late", ["--domain"]),
        ("advise visits.csv --label late --domain site --task multi-label", ["tags", "sweep"]),
        ("advise visits.csv --label age --domain site --metric auroc", ["'auroc'", "'rmse'"]),
        ("advise visits.csv --label late --domain kind", ["at least 3", "2"]),
        ("advise colored-digits --select leave-one-out", ["leave-one-out", "4", "train-val"]),
        ("advise colored-digits --methods rmd", ["'rmd'"]),
        ("advise colored-digits --leave-out-together 0.9+0.7", ["'0.7'"]),
        ("advise colored-digits --draws 0", ["draws", "0"]),
        ("advise colored-digits --option average=swad", ["average", "riskmatch train"]),
        ("advise colored-digits --option weihgt=1", ["'weihgt'"]),
    ],
)
def test_bad_input_ends_with_one_line_and_no_folder(riskmatch, words, facts):
    visits("visits.csv")
    result = riskmatch(*words.split())
    assert result.code == 2
    assert "Traceback" not in result.err
    for fact in facts:
        assert fact in result.err.splitlines()[-1]
    assert not Path("advice").exists()


def test_advice_is_public():
    import riskmatch

    assert riskmatch.advise.__annotations__["return"] == Advised.__name__
