"""``riskmatch advise``: from data to advice, and from advice to a model."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import draw_pets

from riskmatch import advise, choose, load_model, results
from riskmatch.advice import Advised, read_advice, write_advice
from riskmatch.advice.advising import advice_for
from riskmatch.advice.judging import harms, prediction_interval
from riskmatch.cli import main
from riskmatch.cli.progress import SweepDisplay
from riskmatch.cli.train import Train
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
    result = riskmatch(*shlex.split(DIGITS))
    assert result.code == 0
    assert "9 runs (8 done before)" in result.err
    for fact in ("90 % prediction interval", "random-effects", "the worst seen", "train-val"):
        assert fact in result.out
    for fact in ("--all-domains", "RDM"):
        assert fact in result.out
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
    assert (advice.method, advice.options["steps"], len(values["methods"])) == ("erm", 4, 3)
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
        *("erm", "rdm variance", "rdm", "gradient boosting"),
    ]
    for domain, check in values["checks"].items():
        accuracy = values["methods"][0]["values"][domain]
        assert check["value"] == pytest.approx(accuracy)
        expected = prediction_interval(left_out_besides(domain))
        assert check["expected"] == pytest.approx(expected.to_json())
    assert list(values["checks"]) == list("ABCD")
    assert "90 % are promised" in values["notes"][-1]
    assert values["most_frequent_class"] == 0.5  # half of every site is late
    assert "most frequent class of the other domains: 50.0 %" in values["findings"][1]
    boosting = values["methods"][-1]["values"]
    assert list(boosting) == list("ABCD")
    assert min(boosting.values()) > 0.8
    tiny = {"steps": 4, "eval_every": 2, "warmup": 1}
    again = advise(
        "visits.csv", methods=["rdm"], draws=1, label="late", domain="site", choices=tiny
    )
    assert json.loads(to_json(again.to_json())) == values
    Path("advice/boosting.json").write_text("damaged")
    words = [*shlex.split(values["command"])[1:], "--save", "model", "--quiet"]
    assert riskmatch(*words).code == 0
    assert load_model("model").config.data_options == {"label": "late", "domain": "site"}
    words = [*shlex.split(TABLE), "--leave-out-together", "A+B", "--json"]
    together = json.loads(riskmatch(*words).out)
    assert together["left_out"] == [["A", "B"], ["C"], ["D"]]
    assert together["selection"] == "train-val"
    assert len(json.loads(Path("advice/boosting.json").read_text())["scores"]) == 9


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
    assert [one["method"] for one in some["methods"]] == ["erm"]
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
        ("advise visits.csv --label age --domain site", ["regression"]),
        ("advise colored-digits --option risk=squared", ["regression"]),
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
